/* The file out of a multipart/form-data body (RFC 7578), as browsers and curl send it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

struct multipart_part {
    const char *data; /* in the body */
    size_t len;
    char name[64], file_name[1024]; /* as they were sent, quotes taken off */
    bool is_file;
};

bool multipart_is(const char *content_type); /* NULL: no */
/* The one file of a body that is in memory (or mapped). ERR_INPUT: not well-formed, or not exactly
 * one file in it. Parts that are no files are passed over. Pure. */
bool multipart_find(const char *data, size_t len, const char *content_type,
                    struct multipart_part *file, struct err *e);
