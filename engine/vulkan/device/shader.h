/* The table of compiled shaders that the build makes from shaders/variants.list. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct shader {
    const char *name;     /* "linear_mxfp4" */
    const uint32_t *code; /* SPIR-V words */
    size_t bytes;
};

extern const struct shader shader_table[];
extern const int shader_table_n;
