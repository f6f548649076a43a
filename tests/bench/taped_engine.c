/* sluice-engine as it is, but it writes given texts (taped.h), and its experts go by a trace whose
 * draws are new for each text: how a whole server streams and drafts can be measured with random
 * weights. Linked with --wrap=memory_load_open. From the environment, before the engine locks
 * itself in: SLUICE_TEXTS (a file of texts.mjs), SLUICE_VOCAB (a model's folder), SLUICE_ROUTING (a
 * kind of routing.h). One answer at a time. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/memory/memory_load.h"
#include "fcgi/cli/bench/routing.h"
#include "tests/bench/taped.h"

#define GUESS 0.78 /* as sluice bench has it */
#define POSITIONS 2048

bool __real_memory_load_open(struct memory_load *l, const struct backend_params *more,
                             struct err *e);
bool __wrap_memory_load_open(struct memory_load *l, const struct backend_params *more,
                             struct err *e);

static struct {
    struct tapes tapes;
    struct routing *routing;
    uint64_t round;
    bool opened;
} it;

__attribute__((constructor)) static void read_texts(void)
{
    struct err e = {0};
    const char *texts = getenv("SLUICE_TEXTS"), *vocab = getenv("SLUICE_VOCAB");
    if (texts && vocab && tapes_read(texts, vocab, &it.tapes, &e))
        return;
    fprintf(stderr, "taped_engine: SLUICE_TEXTS, SLUICE_VOCAB: %s\n", e.text);
    exit(2);
}

static void route(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    routing_route(it.routing, layer, sequence, position, ids);
}

static void guess(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    routing_guess(it.routing, layer, sequence, position, ids);
}

static void began(void)
{
    if (it.routing)
        routing_renew(it.routing, ++it.round);
}

bool __wrap_memory_load_open(struct memory_load *l, const struct backend_params *more,
                             struct err *e)
{
    struct backend_params with = *more;
    const char *name = getenv("SLUICE_ROUTING");
    const struct routing_params p = {.plan = model_plan(l->model),
                                     .kind = routing_kind_of(name ? name : "model"),
                                     .seed = 1,
                                     .guess = GUESS,
                                     .n_sequences = 1,
                                     .n_positions = POSITIONS};
    if (it.opened) /* a draft model */
        return __real_memory_load_open(l, more, e);
    it.opened = true;
    if (p.kind != ROUTING_MODEL) {
        if (!(it.routing = routing_create(&p, e)))
            return false;
        with.route = route;
        with.predict = guess;
    }
    if (!__real_memory_load_open(l, &with, e))
        return false;
    l->ops = taped_ops(l->ops, &it.tapes, began);
    return true;
}
