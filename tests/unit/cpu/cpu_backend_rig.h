/* The demo model on the cpu backend: prompts, runs of a step, and logits of each sequence alone. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/open.h"
#include "engine/model/model.h"

#define ROWS 64
#define TOKENS 75 /* over two blocks of 32 */
#define SEQUENCES 5
#define STATES 7 /* one each, and two for checkpoints */
extern struct model *model;
extern const struct model_plan *plan;
extern int32_t tokens[SEQUENCES][TOKENS];
extern float *alone[SEQUENCES]; /* [n_vocab] logits of each sequence's last token, one by one */
extern int32_t experts_of[SEQUENCES]; /* step_sequence.n_experts of each */
extern struct step_row rows[ROWS];
extern struct err e;
int open_path(const char *name);
int open_model(void **state);
int open_model_of_many_runs(void **state);
int open_recurrent_model(void **state);
int close_model(void **state);

/* Blocks of sequence s, scattered. */
const int32_t *blocks_of(int s);

struct step_sequence part(int s, int start, int n);
void run(struct backend *b, const struct step_sequence *s, int n);
