/* Copies what is known of a model into the status page. */
#include "engine/sched/watch/model_facts.h"

#include <stdio.h>
#include <string.h>

#include "engine/model/plan_parts.h"
#include "engine/model/pooling.h"

static void describe_parts(const struct model_plan *plan, struct status_page *page)
{
    struct plan_parts parts;
    struct status_part *to = page->parts;
    _Static_assert(STATUS_PARTS >= PART__N && STATUS_PART_FORMATS <= PART_MAX_FORMATS,
                   "room for all parts");
    plan_parts_of(&parts, plan);
    memset(page->parts, 0, sizeof page->parts);
    for (int i = 0; i < PART__N; i++) {
        if (!parts.bytes[i])
            continue;
        snprintf(to->name, sizeof to->name, "%s", plan_part_name((enum plan_part)i));
        to->bytes = parts.bytes[i];
        for (int k = 0; k < STATUS_PART_FORMATS; k++) {
            snprintf(to->formats[k].text, sizeof to->formats[k].text, "%s",
                     parts.formats[i][k].text);
            to->formats[k].bytes = parts.formats[i][k].bytes;
        }
        to++;
    }
}

void model_facts(const struct model *m, struct status_page *page)
{
    const struct model_plan *plan = model_plan(m);
    const struct model_stats *stats = model_stats(m);
    snprintf(page->family, sizeof page->family, "%s", plan->family);
    page->n_layer = plan->n_layer;
    page->n_vocab = plan->n_vocab;
    page->model_fingerprint = plan->fingerprint;
    page->n_attention = plan->n_attention;
    page->n_recurrent = plan->n_recurrent;
    page->n_unused_tensors = stats->n_unused_tensors;
    page->kv_bytes_per_token = stats->kv_bytes_per_token;
    page->state_bytes_per_sequence = stats->state_bytes;
    describe_parts(plan, page);
    page->file_bytes = stats->file_bytes;
    page->weight_bytes = stats->weight_bytes;
    page->dense_bytes = stats->dense_bytes;
    page->expert_bytes = stats->expert_bytes;
    page->active_bytes = stats->active_bytes;
    page->parameters = stats->parameters;
    page->active_parameters = stats->active_parameters;
}

void model_facts_of_vectors(const struct model *m, struct status_page *page)
{
    page->dimensions = model_plan(m)->d_model;
    snprintf(page->pooling, sizeof page->pooling, "%s", pooling_name(model_plan(m)->pooling));
}
