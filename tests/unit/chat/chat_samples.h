/* Answers in the formats that the shared cases leave out, whole and broken, with what becomes of
 * them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct chat_sample {
    const char *format, *raw;
    bool opens; /* the prompt ends inside the reasoning */
    const char *reasoning, *content;
    const char *calls; /* as a JSON list without its brackets */
};

extern const char chat_samples_tools[]; /* JSON of the tools f and g, which all samples call */
extern const struct chat_sample chat_samples_further[];
extern const size_t chat_samples_n_further;
/* Calls that break after they were given out live. */
extern const struct chat_sample chat_samples_broken[];
extern const size_t chat_samples_n_broken;
