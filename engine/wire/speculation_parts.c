/* Names of drafters, and what drafts did for a job as part of the last event's frame. */
#include <string.h>

#include "engine/wire/message_parts.h"

static const char *const names[ENGINE_SPECULATE__N] = {
    [ENGINE_SPECULATE_SERVER] = "server", [ENGINE_SPECULATE_AUTO] = "auto",
    [ENGINE_SPECULATE_OFF] = "off",       [ENGINE_SPECULATE_NGRAM] = "ngram",
    [ENGINE_SPECULATE_DRAFT] = "draft",   [ENGINE_SPECULATE_MTP] = "mtp",
    [ENGINE_SPECULATE_DFLASH] = "dflash",
};

const char *engine_speculate_name(enum engine_speculate s)
{
    return names[s];
}

bool engine_speculate_parse(const char *name, enum engine_speculate *out, struct err *e)
{
    for (int i = ENGINE_SPECULATE_AUTO; i < ENGINE_SPECULATE__N; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum engine_speculate)i;
            return true;
        }
    return err_field(e, ERR_INPUT, "speculate",
                     "%.32s is unknown, want auto, off, ngram, draft, mtp or dflash", name);
}

void message_put_speculation(struct buf *b, const struct engine_speculation *s)
{
    frame_put_u32(b, (uint32_t)s->applied);
    frame_put_u32(b, (uint32_t)s->steps);
    frame_put_u32(b, (uint32_t)s->drafted);
    frame_put_u32(b, (uint32_t)s->accepted);
    for (int i = 0; i < ENGINE_MAX_DRAFT; i++) {
        frame_put_u32(b, (uint32_t)s->drafted_at[i]);
        frame_put_u32(b, (uint32_t)s->accepted_at[i]);
    }
    frame_put_u32(b, (uint32_t)s->prediction_accepted);
    frame_put_u32(b, (uint32_t)s->prediction_rejected);
    frame_put_f64(b, s->draft_ms);
    frame_put_f64(b, s->verify_ms);
}

void message_get_speculation(struct frame_reader *r, struct engine_speculation *s)
{
    uint32_t applied = frame_get_u32(r);
    r->failed |= applied >= ENGINE_SPECULATE__N;
    s->applied = applied < ENGINE_SPECULATE__N ? (enum engine_speculate)applied : 0;
    s->steps = (int32_t)frame_get_u32(r);
    s->drafted = (int32_t)frame_get_u32(r);
    s->accepted = (int32_t)frame_get_u32(r);
    for (int i = 0; i < ENGINE_MAX_DRAFT; i++) {
        s->drafted_at[i] = (int32_t)frame_get_u32(r);
        s->accepted_at[i] = (int32_t)frame_get_u32(r);
    }
    s->prediction_accepted = (int32_t)frame_get_u32(r);
    s->prediction_rejected = (int32_t)frame_get_u32(r);
    s->draft_ms = frame_get_f64(r);
    s->verify_ms = frame_get_f64(r);
}
