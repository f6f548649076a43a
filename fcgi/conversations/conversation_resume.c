/* conversation.h: the prompt of an answer that is resumed. It is the old one, then the tokens that
 * the model had written: so the prefix cache has them, and at temperature 0 the answer becomes what
 * it would have been uncut. Where the tokens are not known (the row came from elsewhere, or its
 * recorder died) its text is set as the model would have. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"
#include "engine/tokenizer/detokenizer.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/process/worker.h"
#include "sql/chats/store_conversations.h"

void conversation_resume_fini(struct conversation_resume *a)
{
    buf_fini(&a->text);
    ids_fini(&a->ids);
    cJSON_Delete(a->parser);
}

bool conversation_can_resume(struct request *r, const struct store_message *m,
                             struct conversation_resume *a, struct err *e)
{
    bool constrained = false;
    if (m->role != ROLE_ASSISTANT)
        return err_field(e, ERR_INPUT, "continue", "must be an answer");
    if (m->status == MESSAGE_RUNNING)
        return err_set(e, ERR_CONFLICT, "this answer is still being written") ||
               err_reason(e, "answer_running");
    if (m->status == MESSAGE_DONE)
        return err_set(e, ERR_CONFLICT, "this answer is complete: there is nothing to continue") ||
               err_reason(e, "continue_ended");
    if (m->parser && !(a->parser = json_parse(m->parser, strlen(m->parser), NULL, e)))
        return false;
    const char *format = json_text(a->parser, "format");
    if (r->model || (format && !strcmp(format, CHAT_RELAYED_FORMAT)))
        return err_field(e, ERR_UNSUPPORTED, "continue",
                         "an answer of another server can't be continued") ||
               err_reason(e, "continue_relayed");
    if (!json_get_bool(a->parser, "constrained", &constrained, e) ||
        !json_get_object(a->parser, "kwargs", &a->kwargs, e))
        return false;
    if (constrained)
        return err_field(e, ERR_UNSUPPORTED, "continue",
                         "an answer that was held to a JSON schema can't be continued") ||
               err_reason(e, "continue_schema");
    if (m->timings) {
        cJSON *timings = json_parse(m->timings, strlen(m->timings), NULL, NULL);
        json_get_number(timings, "reasoning_ms", 0, 1e15, &a->reasoning_ms, NULL);
        cJSON_Delete(timings);
    }
    return true;
}

/* A last character that was cut in its middle is left for the model to write again. */
static bool take_tokens(struct request *r, const struct prompt *p, const struct store_tokens *made,
                        struct conversation_resume *a, struct err *e)
{
    struct detokenizer d;
    size_t whole = 0;
    detokenizer_init(&d, r->worker->text->vocab, prompt_wants_special_text(p));
    for (size_t i = 0; i < made->n; i++) {
        if (!detokenizer_push(&d, made->tokens[i], &a->text))
            break;
        if (d.n_pending == 0)
            whole = i + 1;
    }
    for (size_t i = 0; i < whole; i++)
        if (!ids_push(&a->ids, made->tokens[i]))
            return err_set(e, ERR_NOMEM, "no memory for the answer's tokens");
    return !a->text.failed || err_set(e, ERR_NOMEM, "no memory for the answer's text");
}

/* The parts of a text that came from outside: no special token is read in them. */
struct untrusted_parts {
    struct text_span at[2];
    size_t n;
};

static void put_untrusted(struct buf *out, const char *from, struct untrusted_parts *u)
{
    u->at[u->n].start = out->len;
    buf_puts(out, from);
    u->at[u->n++].end = out->len;
}

/* Rebuilds the model's text, except for blanks around its markup. */
static bool set_text(const struct prompt *p, const struct store_message *m, struct buf *out,
                     struct untrusted_parts *u, struct err *e)
{
    const char *open = "", *close = "";
    const bool tags = chat_format_reasoning(p->format, &open, &close);
    if (m->tool_calls)
        return err_field(e, ERR_UNSUPPORTED, "continue",
                         "the tokens of this answer are not known, and it has calls: ask for "
                         "another answer") ||
               err_reason(e, "continue_unknown");
    if (!strcmp(p->format, "harmony")) {
        if (*m->reasoning) {
            buf_puts(out, "<|channel|>analysis<|message|>");
            put_untrusted(out, m->reasoning, u);
        }
        if (*m->content) {
            buf_puts(out, *m->reasoning ? "<|end|><|start|>assistant<|channel|>final<|message|>"
                                        : "<|channel|>final<|message|>");
            put_untrusted(out, m->content, u);
        }
        return true;
    }
    if (*m->reasoning && !tags)
        return err_field(e, ERR_UNSUPPORTED, "continue",
                         "the tokens of this answer are not known: ask for another answer") ||
               err_reason(e, "continue_unknown");
    if (*m->reasoning) {
        if (!p->opens_reasoning)
            buf_printf(out, "%s\n", open);
        put_untrusted(out, m->reasoning, u);
    }
    if (*m->content) {
        if (*m->reasoning || p->opens_reasoning)
            buf_printf(out, "\n%s\n\n", close);
        put_untrusted(out, m->content, u);
    }
    return true;
}

/* The prompt and the text are tokenized as one, as they would be had the model's words come from
 * it. */
static bool take_text(struct request *r, struct prompt *p, const struct store_message *m,
                      struct conversation_resume *a, struct err *e)
{
    struct untrusted_parts own = {0};
    struct ids all = {0};
    size_t before = p->rendered.text.len;
    struct rendered *whole = &p->rendered;
    if (!set_text(p, m, &a->text, &own, e))
        return false;
    struct text_span *untrusted =
        realloc(whole->untrusted, (whole->n_untrusted + own.n) * sizeof *untrusted + 1);
    if (!untrusted)
        return err_set(e, ERR_NOMEM, "no memory for the prompt");
    whole->untrusted = untrusted;
    for (size_t i = 0; i < own.n; i++)
        untrusted[whole->n_untrusted++] =
            (struct text_span){own.at[i].start + before, own.at[i].end + before};
    whole->cap_untrusted = whole->n_untrusted;
    if (a->text.len && !buf_append(&whole->text, a->text.data, a->text.len))
        return err_set(e, ERR_NOMEM, "no memory for the prompt");
    if (!tokenizer_encode(r->worker->text->tokenizer,
                          &(struct tokenizer_input){.text = whole->text.data,
                                                    .len = whole->text.len,
                                                    .mode = TOKENIZE_SPECIAL,
                                                    .untrusted = untrusted,
                                                    .n_untrusted = whole->n_untrusted},
                          &all, e)) {
        ids_fini(&all);
        return false;
    }
    for (size_t i = p->ids.n; i < all.n; i++)
        if (!ids_push(&a->ids, all.at[i])) {
            ids_fini(&all);
            return err_set(e, ERR_NOMEM, "no memory for the prompt");
        }
    ids_fini(&p->ids);
    p->ids = all;
    return true;
}

bool conversation_resume(struct request *r, const struct store_message *m, struct prompt *p,
                         struct conversation_resume *a, struct err *e)
{
    struct store_tokens made;
    bool opens = p->opens_reasoning;
    if (!store_message_tokens(r->store, r->arena,
                              &(struct store_ref){.user_id = r->who.user_id, .id = m->id}, &made,
                              e) ||
        !json_get_bool(a->parser, "opens_reasoning", &opens, e))
        return false;
    /* another model's tokens are other words */
    const bool own = !m->model || !strcmp(m->model, model_name_of(r));
    if (!made.tokens || !own || opens != p->opens_reasoning) {
        if (!take_text(r, p, m, a, e))
            return false;
    } else {
        if (!take_tokens(r, p, &made, a, e))
            return false;
        for (size_t i = 0; i < a->ids.n; i++)
            if (!ids_push(&p->ids, a->ids.at[i]))
                return err_set(e, ERR_NOMEM, "no memory for the prompt");
    }
    if (a->text.len && memchr(a->text.data, 0, a->text.len))
        return err_field(e, ERR_UNSUPPORTED, "continue",
                         "the answer holds a NUL character: ask for another answer") ||
               err_reason(e, "continue_unknown");
    return conversation_fits(r, p, e);
}
