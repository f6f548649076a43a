/* stored_answer.h: the two directions, from a row's parser to a generation and from a generation to
 * a row. */
#include "fcgi/http/reply.h"
#include "fcgi/inference/stored_answer.h"

#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/inference/cache_usage.h"
#include "fcgi/inference/reduced_top_k.h"

#define MAX_PARSER_BYTES ((size_t)8 << 20)

static void put_tree(struct buf *out, const char *name, const cJSON *tree)
{
    if (!tree)
        return;
    buf_printf(out, ",\"%s\":", name);
    json_write(out, tree);
}

bool stored_answer_parser_json(struct buf *out, const struct stored_answer_parser *p)
{
    buf_puts(out, "{\"format\":");
    buf_json_string(out, p->format, strlen(p->format));
    buf_printf(out, ",\"opens_reasoning\":%s", p->opens_reasoning ? "true" : "false");
    put_tree(out, "tools", p->tools);
    put_tree(out, "kwargs", p->kwargs);
    if (p->constrained)
        buf_puts(out, ",\"constrained\":true");
    if (p->prompt_estimate)
        buf_printf(out, ",\"prompt_estimate\":%d", p->prompt_estimate);
    if (p->prefix) {
        buf_printf(out, ",\"earlier_tokens\":%d,\"earlier_reasoning_ms\":", p->earlier_tokens);
        buf_json_number(out, p->earlier_reasoning_ms);
        buf_printf(out, ",\"began_at\":%lld,\"prefix\":", (long long)p->began_at);
        buf_json_string(out, p->prefix, p->prefix_len);
    }
    return buf_putc(out, '}') && !out->failed;
}

/* The answer as it was when it was resumed. */
static bool resume(struct generation *g, const cJSON *parser, struct err *e)
{
    const char *prefix = NULL;
    int64_t tokens = 0, estimate = 0;
    if (!json_get_int(parser, "prompt_estimate", 0, INT32_MAX, &estimate, e) ||
        !json_get_string(parser, "prefix", &prefix, e) ||
        !json_get_int(parser, "earlier_tokens", 0, INT32_MAX, &tokens, e) ||
        !json_get_number(parser, "earlier_reasoning_ms", 0, 1e15, &g->earlier_reasoning_ms, e))
        return false;
    g->earlier_tokens = (int)tokens;
    g->prompt_estimate = (int32_t)estimate;
    return !prefix || generation_resume(g, prefix, strlen(prefix), e);
}

bool stored_answer_begin(struct generation *g, cJSON **tree, const char *parser,
                         const struct generation_params *listener, struct err *e)
{
    struct generation_params p = {0};
    if (listener)
        p = (struct generation_params){.on_delta = listener->on_delta,
                                       .context = listener->context};
    *tree = NULL;
    memset(g, 0, sizeof *g);
    if (parser) {
        *tree = json_parse(parser, strlen(parser),
                           &(struct json_limits){.max_bytes = MAX_PARSER_BYTES}, e);
        if (!*tree || !json_get_string(*tree, "format", &p.format, e) ||
            !json_get_bool(*tree, "opens_reasoning", &p.opens_reasoning, e) ||
            !json_get_array(*tree, "tools", &p.tools, e))
            return false;
    }
    return generation_init(g, &p, e) && (!*tree || resume(g, *tree, e));
}

static enum store_status status_of(const struct generation *g)
{
    if (g->state == GENERATION_FAILED)
        return MESSAGE_ERROR;
    if (g->state != GENERATION_DONE)
        return MESSAGE_RUNNING;
    return g->finish == ENGINE_LENGTH      ? MESSAGE_LENGTH
           : g->finish == ENGINE_CANCELLED ? MESSAGE_STOPPED
                                           : MESSAGE_DONE;
}

static void put_timings(struct buf *out, const struct generation *g)
{
    const struct engine_usage *u = &g->usage;
    const struct {
        const char *name;
        double value;
    } rows[] = {{"queue_ms", u->queue_ms},
                {"prefill_ms", u->prefill_ms},
                {"ttft_ms", u->queue_ms + u->prefill_ms},
                {"decode_ms", u->decode_ms},
                {"prefill_tokens_per_s", u->prefill_tokens_per_s},
                {"decode_tokens_per_s", u->decode_tokens_per_s}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_printf(out, "%c\"%s\":", i ? ',' : '{', rows[i].name);
        buf_json_number(out, rows[i].value);
    }
    if (g->reasoning.len) {
        buf_puts(out, ",\"reasoning_ms\":");
        buf_json_number(out, g->earlier_reasoning_ms + g->reasoning_ms);
    }
    if (g->earlier_tokens)
        buf_printf(out, ",\"earlier_tokens\":%d", g->earlier_tokens);
    cache_usage_put_timings(out, u);
    reduced_top_k_put(out, u);
    buf_putc(out, '}');
}

bool stored_answer_row(const struct generation *g, int64_t id, struct stored_answer_texts *t,
                       struct store_answer *row, struct err *e)
{
    *row = (struct store_answer){.id = id,
                                 .status = status_of(g),
                                 .content = g->content.data,
                                 .content_len = g->content.len,
                                 .reasoning = g->reasoning.data,
                                 .reasoning_len = g->reasoning.len};
    buf_clear(&t->timings);
    buf_clear(&t->calls);
    buf_clear(&t->error_detail);
    if (g->n_calls) {
        cJSON *calls = generation_calls_json(g);
        bool written = calls && json_write(&t->calls, calls);
        cJSON_Delete(calls);
        if (!written)
            return err_set(e, ERR_NOMEM, "no memory for the answer's calls");
        row->tool_calls = t->calls.data;
    }
    if (g->state == GENERATION_DONE) {
        put_timings(&t->timings, g);
        row->timings = t->timings.data;
        row->has_usage = true;
        row->prompt_tokens = g->usage.prompt_tokens;
        row->cached_tokens = g->usage.cached_tokens;
        row->completion_tokens = g->usage.completion_tokens;
    } else if (g->state == GENERATION_FAILED) {
        if (g->prompt_estimate && generation_was_asked(g)) { /* another server may charge for it */
            row->has_usage = true;
            row->prompt_tokens = g->prompt_estimate;
            row->completion_tokens = g->n_tokens;
        }
        row->error = g->error.text;
        reply_error_detail(&t->error_detail, &g->error);
        row->error_detail = t->error_detail.data;
    }
    return (!t->timings.failed && !t->error_detail.failed) ||
           err_set(e, ERR_NOMEM, "no memory for the answer's row");
}

void stored_answer_texts_fini(struct stored_answer_texts *t)
{
    buf_fini(&t->timings);
    buf_fini(&t->calls);
    buf_fini(&t->error_detail);
}
