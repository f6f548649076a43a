/* What the status page says of a model, from its plan and its counts. Loop thread, between
 * status_begin and status_end. */
#pragma once
#include "engine/model/model.h"
#include "engine/wire/status.h"

void model_facts(const struct model *m, struct status_page *page);
/* Of a model that makes embeddings: dimensions and pooling. */
void model_facts_of_vectors(const struct model *m, struct status_page *page);
