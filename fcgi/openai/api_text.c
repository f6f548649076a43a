/* POST /tokenize, /detokenize, /apply-template: the text layer, seen from outside. */
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/tokenizer/detokenizer.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/inference/prompt.h"
#include "fcgi/openai/chat_files.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"

/* vLLM's names (prompt or messages, add_special_tokens, return_token_strs) and llama.cpp's
 * (content, add_special, with_pieces). The tokenizers of the families that run here put no token
 * before or behind a text, so either way of asking for such gives the same. */
static const struct field_row tokenize_fields[] = {
    {"model", FIELD_READ},
    {"prompt", FIELD_READ},
    {"content", FIELD_READ},
    {"messages", FIELD_READ},
    {"tools", FIELD_READ},
    {"chat_template_kwargs", FIELD_READ},
    {"add_generation_prompt", FIELD_READ},
    {"add_special_tokens", FIELD_READ},
    {"add_special", FIELD_READ},
    {"parse_special", FIELD_READ},
    {"with_pieces", FIELD_READ},
    {"return_token_strs", FIELD_READ},
    {NULL, FIELD_READ},
};
static const struct field_row detokenize_fields[] = {
    {"model", FIELD_READ}, {"tokens", FIELD_READ}, {NULL, FIELD_READ}};
static const struct field_row template_fields[] = {
    {"model", FIELD_READ},
    {"messages", FIELD_READ},
    {"tools", FIELD_READ},
    {"chat_template_kwargs", FIELD_READ},
    {"add_generation_prompt", FIELD_READ},
    {NULL, FIELD_READ},
};

static void put_token(struct buf *b, const struct vocab *v, int32_t id)
{
    size_t len = 0;
    const char *bytes = vocab_bytes(v, id, &len);
    buf_printf(b, "{\"id\":%d,\"piece\":", (int)id);
    buf_json_string(b, bytes ? bytes : "", len);
    buf_putc(b, '}');
}

static void put_strings(struct buf *b, const struct vocab *v, const struct ids *ids)
{
    buf_puts(b, ",\"token_strs\":[");
    for (size_t i = 0; i < ids->n; i++) {
        size_t len = 0;
        const char *bytes = vocab_bytes(v, ids->at[i], &len);
        if (i)
            buf_putc(b, ',');
        buf_json_string(b, bytes ? bytes : "", len);
    }
    buf_putc(b, ']');
}

static bool reply_ids(struct request *r, const struct ids *ids, bool pieces, bool strings)
{
    struct buf b = {0};
    buf_printf(&b, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", ids->n,
               (int)r->worker->text->n_ctx);
    for (size_t i = 0; i < ids->n; i++) {
        if (i)
            buf_putc(&b, ',');
        if (pieces)
            put_token(&b, r->worker->text->vocab, ids->at[i]);
        else
            buf_printf(&b, "%d", (int)ids->at[i]);
    }
    buf_putc(&b, ']');
    if (strings)
        put_strings(&b, r->worker->text->vocab, ids);
    ignored_write(&b, r);
    buf_putc(&b, '}');
    reply_json_buf(r, 200, &b);
    buf_fini(&b);
    return true;
}

struct chat_fields {
    cJSON *messages;
    const cJSON *tools, *kwargs;
    bool add_generation_prompt;
};

static bool read_chat_fields(cJSON *body, struct chat_fields *f, struct err *e)
{
    const cJSON *messages = NULL;
    *f = (struct chat_fields){.messages = cJSON_GetObjectItemCaseSensitive(body, "messages"),
                              .add_generation_prompt = true};
    return json_get_array(body, "messages", &messages, e) &&
           json_get_array(body, "tools", &f->tools, e) &&
           json_get_object(body, "chat_template_kwargs", &f->kwargs, e) &&
           json_get_bool(body, "add_generation_prompt", &f->add_generation_prompt, e);
}

/* The body's messages as the prompt that they become. */
static bool render(struct request *r, const struct chat_fields *f, struct prompt *out,
                   struct err *e)
{
    if (!chat_check_messages(f->messages, e) || (f->tools && !chat_check_tools(f->tools, e)) ||
        !chat_files_read(r, f->messages, e))
        return false;
    struct prompt_input in = {.messages = f->messages,
                              .tools = f->tools,
                              .kwargs = f->kwargs,
                              .no_generation_prompt = !f->add_generation_prompt,
                              .generic_tools = prompt_generic_tools(r)};
    return prompt_make(r->worker->text, &in, out, e);
}

static bool tokenize_messages(struct request *r, const struct chat_fields *f, bool pieces,
                              bool strings, struct err *e)
{
    struct prompt prompt = {0};
    bool ok = render(r, f, &prompt, e) && reply_ids(r, &prompt.ids, pieces, strings);
    prompt_fini(&prompt);
    return ok;
}

static bool tokenize(struct request *r, struct err *e)
{
    cJSON *body = work_begin_text(r, e) ? request_json(r, e) : NULL;
    const char *text = NULL, *content = NULL;
    bool special = true, pieces = false, strings = false, added = false;
    struct ids ids = {0};
    struct chat_fields chat;
    if (!body || !fields_take(r, body, tokenize_fields, e) || !field_model(r, body, e) ||
        !read_chat_fields(body, &chat, e) || !json_get_string(body, "prompt", &text, e) ||
        !json_get_string(body, "content", &content, e) ||
        !json_get_bool(body, "parse_special", &special, e) ||
        !json_get_bool(body, "with_pieces", &pieces, e) ||
        !json_get_bool(body, "return_token_strs", &strings, e) ||
        !json_get_bool(body, "add_special_tokens", &added, e) ||
        !json_get_bool(body, "add_special", &added, e))
        return false;
    if (!text && !content && chat.messages)
        return tokenize_messages(r, &chat, pieces, strings, e);
    text = text ? text : content;
    if (!text)
        return err_field(e, ERR_INPUT, "prompt", "is needed: the text to tokenize");
    bool ok = tokenizer_encode(
                  r->worker->text->tokenizer,
                  &(struct tokenizer_input){.text = text,
                                            .len = strlen(text),
                                            .mode = special ? TOKENIZE_SPECIAL : TOKENIZE_PLAIN},
                  &ids, e) &&
              reply_ids(r, &ids, pieces, strings);
    ids_fini(&ids);
    return ok;
}

static bool detokenize(struct request *r, struct err *e)
{
    const cJSON *body = work_begin_text(r, e) ? request_json(r, e) : NULL, *list = NULL, *item;
    const struct vocab *v = r->worker->text->vocab;
    struct buf text = {0}, b = {0};
    struct detokenizer d;
    if (!body || !fields_take(r, body, detokenize_fields, e) || !field_model(r, body, e) ||
        !json_get_array(body, "tokens", &list, e))
        return false;
    if (!list)
        return err_field(e, ERR_INPUT, "tokens", "is needed: a list of token ids");
    detokenizer_init(&d, v, true);
    cJSON_ArrayForEach (item, list) {
        if (!cJSON_IsNumber(item) || item->valuedouble != item->valueint || item->valueint < 0 ||
            item->valueint >= vocab_size(v)) {
            buf_fini(&text);
            return err_field(e, ERR_INPUT, "tokens",
                             "holds something that is not an id from 0 to %d",
                             (int)vocab_size(v) - 1);
        }
        detokenizer_push(&d, item->valueint, &text);
    }
    detokenizer_flush(&d, &text);
    buf_puts(&b, "{\"prompt\":");
    buf_json_string(&b, text.data ? text.data : "", text.len);
    buf_puts(&b, ",\"content\":");
    buf_json_string(&b, text.data ? text.data : "", text.len);
    buf_putc(&b, '}');
    b.failed |= text.failed;
    reply_json_buf(r, 200, &b);
    buf_fini(&text);
    buf_fini(&b);
    return true;
}

static bool apply_template(struct request *r, struct err *e)
{
    cJSON *body = work_begin_text(r, e) ? request_json(r, e) : NULL;
    struct prompt prompt = {0};
    struct buf b = {0};
    struct chat_fields chat;
    bool ok = body && fields_take(r, body, template_fields, e) && field_model(r, body, e) &&
              read_chat_fields(body, &chat, e) && render(r, &chat, &prompt, e);
    if (ok) {
        const struct buf *text = &prompt.rendered.text;
        buf_puts(&b, "{\"prompt\":");
        buf_json_string(&b, text->data ? text->data : "", text->len);
        buf_printf(&b, ",\"count\":%zu}", prompt.ids.n);
        reply_json_buf(r, 200, &b);
    }
    buf_fini(&b);
    prompt_fini(&prompt);
    return ok;
}

#define TEXT_BODY ((size_t)8 << 20)

const struct route api_text_routes[] = {
    {.method = HTTP_POST,
     .path = "/tokenize",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = TEXT_BODY,
     .handler = tokenize,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Turn a text into token ids",
             .body = "TokenizeRequest",
             .reply = "Tokens",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/detokenize",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = TEXT_BODY,
     .handler = detokenize,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Turn token ids into their text",
             .body = "DetokenizeRequest",
             .reply = "Text",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/apply-template",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = TEXT_BODY,
     .handler = apply_template,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Render a chat as the prompt it becomes",
             .body = "TemplateRequest",
             .reply = "Prompt",
             .statuses = "200"}},
    {0},
};
