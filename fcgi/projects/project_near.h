/* The search by meaning beside the one by words, where an engine embeds. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "sql/projects/store_project_files.h"

struct request;

/* Makes a vector of the question, and puts the passages that are near it and those with its words
 * (`found`, scored) into one list. Where the engine is not ready, too slow or too busy, `found`
 * stays as it is. *by_meaning: both were searched. False: the database failed, or there is no
 * memory. */
bool project_near(struct request *r, const struct store_ref *project, const char *question,
                  struct store_passages *found, bool *by_meaning, struct err *e);
