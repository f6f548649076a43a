/* JSON, one byte at a time: is what came so far still the beginning of a value, is it whole? As
 * models write it, so raw control characters in strings pass. The members of the outermost object
 * are noted by place. Fixed size, no allocation. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MACHINE_DEPTH 128
#define JSON_MACHINE_MEMBERS 16

enum json_status { JSON_MORE, JSON_WHOLE, JSON_WRONG };

struct json_member_place { /* offsets from the first byte fed */
    uint32_t key, key_end; /* with the quotes */
    uint32_t value, value_end;
};

struct json_machine {
    uint8_t stack[JSON_MACHINE_DEPTH]; /* '{' or '[' */
    uint8_t depth;
    uint8_t expect; /* what may come, see parse_json.c */
    uint8_t in;     /* string, literal, number or nothing */
    uint8_t hex;    /* digits of \u that are still to come; */
    bool escape, is_key;
    const char *word; /* the rest of true, false, null */
    uint8_t number;   /* part of a number */
    uint32_t n;       /* bytes fed */
    struct json_member_place member[JSON_MACHINE_MEMBERS];
    uint32_t n_members; /* more than fit are walked but not noted */
};

void json_machine_begin(struct json_machine *m);
/* Only objects and arrays can be fed: their end is known without a look ahead. */
enum json_status json_machine_byte(struct json_machine *m, char c);
/* The outermost object's member, NULL when it has none of this name. */
const struct json_member_place *json_machine_member(const struct json_machine *m, const char *text,
                                                    const char *name);
