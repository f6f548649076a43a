/* What changes of one conversation and of many share. Inside sql/ only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

/* ERR_INPUT "project_id": the user has no such project. 0 and STORE_NO_PROJECT always fit. */
bool conversations_project_fits(struct store *s, int64_t user_id, int64_t project_id,
                                struct err *e);
