/* The reference outputs of one tiny model of a family (tests/data/golden): prompts, logits,
 * intermediates and states. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"
#include "engine/format/tensor_file.h"
#include "engine/tokenizer/tokenizer.h"

struct golden_case {
    char dir[1024], family[64], form[64], model[2048];
    char name[160];
};

struct golden_truth { /* one family's truths */
    cJSON *json;
    const cJSON *form;
    struct tensor_file file;
    struct tensor_file states; /* of recurrent layers, where they are not in `file`; may be empty */
};

/* Fails the test with the error's text. */
void golden_must(bool ok, const struct err *e);
void golden_truth_open(struct golden_truth *l, const struct golden_case *c);
void golden_truth_close(struct golden_truth *l);
struct ids golden_prompt(const struct golden_truth *l, const char *prompt);
/* A tensor's values, copied, because the file's data need not be aligned. The caller frees them;
 * NULL: not in the file. */
float *golden_truth_values(const struct golden_truth *l, size_t *n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
