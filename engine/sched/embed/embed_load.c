/* Decides whether a model can embed or score, and how large its steps are. */
#include "engine/sched/embed/embed_load.h"

#include "engine/backend/backend.h"

#define DEFAULT_CTX 8192 /* tokens of a text: more is asked for by --ctx */
#define STEP_ROWS 2048   /* tokens of a step that many short texts share */

void embed_load_words(const struct vocab *v, int32_t *yes, int32_t *no)
{
    *yes = vocab_find(v, "yes", 3);
    *no = vocab_find(v, "no", 2);
}

bool embed_load_check(enum engine_task task, const struct model_plan *plan, const struct vocab *v,
                      struct err *e)
{
    int32_t yes, no;
    const bool scorer = plan->scorer.out.type != WEIGHT_NONE;
    embed_load_words(v, &yes, &no);
    if (task == ENGINE_TASK_TEXT)
        return !plan->encoder || err_set(e, ERR_UNSUPPORTED,
                                         "%s models write no text: this one is for "
                                         "--embedding-model or --rerank-model",
                                         plan->family);
    if (plan->n_recurrent)
        return err_set(e, ERR_UNSUPPORTED, "%s: recurrent layers can't embed or score yet",
                       plan->family);
    if (task == ENGINE_TASK_EMBED)
        return (plan->pooling != POOLING_NONE && !scorer) ||
               err_set(e, ERR_UNSUPPORTED, "%s",
                       scorer ? "this model scores pairs of texts (--rerank-model), it makes no "
                                "embeddings"
                              : "this model is trained to continue text, not to embed it: its "
                                "files name no pooling");
    /* the head has a row of each token that the model knows; the tokenizer may have more */
    if (plan->encoder ? scorer : yes >= 0 && no >= 0 && yes < plan->n_vocab && no < plan->n_vocab)
        return true;
    return err_set(e, ERR_UNSUPPORTED, "%s",
                   plan->encoder ? "this model has no head that scores pairs of texts"
                                 : "this model has no tokens \"yes\" and \"no\" to score with");
}

bool embed_load_request(const struct model_plan *plan, struct memory_request *request,
                        struct err *e)
{
    const struct sizing_request *asked = &request->size;
    const int32_t few = plan->n_ctx < DEFAULT_CTX ? plan->n_ctx : DEFAULT_CTX,
                  ctx = asked->ctx ? (int32_t)asked->ctx : few,
                  step = asked->prefill_chunk ? (int32_t)asked->prefill_chunk : STEP_ROWS,
                  rows = (step > ctx ? step : ctx) + BACKEND_BLOCK_TOKENS;
    if (ctx > plan->n_ctx)
        return err_field(e, ERR_LIMIT, "ctx", "%d positions, the model was made for %d", ctx,
                         plan->n_ctx);
    request->fixed = (struct sizing){
        .n_ctx = ctx,
        .n_slots = (int32_t)asked->slots,
        .n_blocks = rows / BACKEND_BLOCK_TOKENS + (int32_t)asked->slots, /* a text begins a block */
        .prefill_chunk = rows,
        .max_rows = rows,
    };
    request->kv_type = KV_F16;
    return true;
}
