/* Work on text that methods and filters share, each keeping the origin of every byte; and sorting.
 * Private to the jinja_*.c files. */
#pragma once
#include "engine/jinja/jinja_builtin.h"

/* Sorting with Python's order, stable. `keys` [n] decide, `items` [n] move along. */
bool jinja_sort(struct jinja_run *r, struct jvalue *items, struct jvalue *keys, uint32_t n,
                unsigned flags);
enum { SORT_REVERSE = 1, SORT_UNDEFINED = 2 /* undefined keys are equal, not an error */ };
/* A new list of the same items. */
struct jvalue jinja_copy_list(struct jinja_run *r, struct jvalue v, enum jtype type);
/* Case-folded for text, as filters compare when case_sensitive is false. */
struct jvalue jinja_fold_case(struct jinja_run *r, struct jvalue v);
struct jvalue jinja_change_case(struct jinja_run *r, const struct jstring *s, int how);
enum { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP, CASE_FOLD };
bool jinja_is_space(uint32_t code); /* as str.isspace: with U+001C..1F */
struct jvalue jinja_strip(struct jinja_run *r, const struct jstring *s, const struct jstring *chars,
                          int sides);
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
struct jvalue jinja_replace(struct jinja_run *r, const struct jstring *s,
                            const struct jstring *from, const struct jstring *to, int64_t max);

/* "%s" % value and "{}".format(...). */
struct jvalue jinja_format_percent(struct jinja_run *r, const struct jstring *format,
                                   struct jvalue arg);
struct jvalue jinja_format_braces(struct jinja_run *r, const struct jstring *format,
                                  const struct jargs *args);
