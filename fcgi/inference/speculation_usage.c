/* speculation_usage.h: one place for the members, since several dialects have them. */
#include "fcgi/inference/speculation_usage.h"

void speculation_usage_put_prediction(struct buf *out, const struct engine_usage *u)
{
    buf_printf(out, "\"accepted_prediction_tokens\":%d,\"rejected_prediction_tokens\":%d",
               (int)u->speculation.prediction_accepted, (int)u->speculation.prediction_rejected);
}

/* By place in the draft, as far as there were any. */
static void put_places(struct buf *out, const char *name, const int32_t *counts, int n)
{
    buf_printf(out, ",\"%s\":[", name);
    for (int i = 0; i < n; i++)
        buf_printf(out, "%s%d", i ? "," : "", (int)counts[i]);
    buf_putc(out, ']');
}

void speculation_usage_put_timings(struct buf *out, const struct engine_usage *u)
{
    const struct engine_speculation *s = &u->speculation;
    /* An answer that the engine never began has the request's own value still. */
    const enum engine_speculate applied =
        s->applied == ENGINE_SPECULATE_SERVER ? ENGINE_SPECULATE_OFF : s->applied;
    int places = 0;
    while (places < ENGINE_MAX_DRAFT && s->drafted_at[places])
        places++;
    buf_printf(out,
               ",\"speculation\":{\"applied\":\"%s\",\"steps\":%d,\"drafted\":%d,\"accepted\":%d",
               engine_speculate_name(applied), (int)s->steps, (int)s->drafted, (int)s->accepted);
    put_places(out, "drafted_at", s->drafted_at, places);
    put_places(out, "accepted_at", s->accepted_at, places);
    buf_printf(out, ",\"depth\":%.2f,\"draft_ms\":%.3f,\"verify_ms\":%.3f}",
               s->steps ? (double)s->drafted / s->steps : 0, s->draft_ms, s->verify_ms);
}

void speculation_usage_add(struct engine_speculation *sum, const struct engine_speculation *more)
{
    sum->applied = more->applied;
    sum->steps += more->steps;
    sum->drafted += more->drafted;
    sum->accepted += more->accepted;
    for (int i = 0; i < ENGINE_MAX_DRAFT; i++) {
        sum->drafted_at[i] += more->drafted_at[i];
        sum->accepted_at[i] += more->accepted_at[i];
    }
    sum->prediction_accepted += more->prediction_accepted;
    sum->prediction_rejected += more->prediction_rejected;
    sum->draft_ms += more->draft_ms;
    sum->verify_ms += more->verify_ms;
}
