/* draft_plan.h: the draft model first, then the model in what it leaves; and once more without it
 * where that does not work. */
#include "engine/draft/draft_plan.h"

#include "engine/model/model.h"

#define LITTLE 16 /* an expert cache that loses less than this part of it is as good */

/* Beside it the model does not fit, or less well than alone. */
static bool is_in_the_way(const struct draft_plan_params *p, const struct memory_request *w,
                          const struct memory_load *beside)
{
    struct memory_load alone;
    struct err none = {0};
    const struct memory_plan *a = &alone.plan, *b = beside ? &beside->plan : NULL;
    return memory_load_plan(&alone, p->model, p->backend, w, &none) &&
           (!b || a->strategy != b->strategy || a->kv_stored != b->kv_stored ||
            a->size.n_ctx != b->size.n_ctx || a->size.n_slots != b->size.n_slots ||
            b->expert_cache < a->expert_cache - a->expert_cache / LITTLE);
}

static bool plan_alone(struct memory_load *memory, const struct draft_plan_params *p,
                       const struct memory_request *w, struct err *e)
{
    return memory_load_plan(memory, p->model, p->backend, w, e);
}

bool draft_plan_make(struct draft_load *drafts, struct memory_load *memory,
                     const struct draft_plan_params *p, const struct memory_request *w,
                     struct err *e)
{
    struct memory_request beside = *w;
    struct err why = {0}, small = {0};
    *memory = (struct memory_load){0};
    if (!draft_load_begin(drafts, p->speculate, p->option, p->load, &beside, e))
        return false;
    if (!drafts->model)
        return plan_alone(memory, p, w, e);
    const bool fits = memory_load_plan(memory, p->model, p->backend, &beside, &why);
    if (fits && !backend_verifies(memory->ops, model_plan(p->model)->n_recurrent)) {
        draft_load_close(drafts); /* there are no drafts with this model here: speculation.h */
        return plan_alone(memory, p, w, e);
    }
    if (fits && draft_load_shares(drafts) && !memory->ops->hands_hidden) {
        err_field(&small, ERR_UNSUPPORTED, "speculate",
                  "%s: the %s backend does not hand out hidden states yet",
                  engine_speculate_name(draft_load_by(drafts)), memory->ops->name);
        return draft_load_leave_out(drafts, &small, e) && plan_alone(memory, p, w, e);
    }
    if (fits && !drafts->found)
        return true;
    if (!is_in_the_way(p, w, fits ? memory : NULL)) {
        *e = why;
        return fits;
    }
    err_field(&small, ERR_LIMIT, drafts->layer ? "speculate" : "draft-model",
              "there is no memory for it beside the model%s%.150s", fits ? "" : ": ", why.text);
    return draft_load_leave_out(drafts, &small, e) && plan_alone(memory, p, w, e);
}
