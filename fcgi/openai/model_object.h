/* The model as /v1/models lists it. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>

struct request;
struct store_model;
struct status_page;

/* The members that clients of OpenAI, Anthropic, vLLM and gateways look for, and the `sluice`
 * object with what is known of the model and of the engine that runs it. Caller owns it; without
 * memory members are missing. */
cJSON *model_object_create(const struct request *r, const struct status_page *page);
/* The same for a model that another server answers. */
cJSON *model_object_relayed(const struct store_model *m);
/* The same for one of this machine beside the first, loaded or not. */
cJSON *model_object_local(struct request *r, const struct store_model *m);
struct side_model;
/* The same of a model of an engine beside it, whose `sluice` object says what it is for. */
cJSON *model_object_of_side(const struct side_model *m);
