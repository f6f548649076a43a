/* Encodes and decodes submissions and keys: the first half of message.h. Events are in event.c. */
#include "engine/wire/message.h"

#include <math.h>
#include <string.h>

#include "engine/wire/cache_message.h"
#include "engine/wire/message_parts.h"

/* flags of a SUBMIT */
enum {
    SUBMIT_IGNORE_EOS = 1,
    SUBMIT_SPECIAL_TEXT = 2,
    SUBMIT_DETACHED = 4,
    SUBMIT_KEEP_STOP = 8,
    SUBMIT_ALL = 15
};

static bool malformed(struct err *e, const char *what)
{
    return err_set(e, ERR_FORMAT, "malformed %s frame", what);
}

void message_put_string(struct buf *b, const char *s)
{
    frame_put_bytes(b, s, (uint32_t)strlen(s));
}

void message_get_string(struct frame_reader *r, char *out, size_t size)
{
    uint32_t len;
    const char *s = frame_get_bytes(r, (uint32_t)size - 1, &len);
    if (len && memchr(s, 0, len))
        r->failed = true;
    if (len)
        memcpy(out, s, len);
    out[len] = 0;
}

static bool at_end(const struct frame_reader *r)
{
    return !r->failed && r->at == r->end;
}

void message_put_hello(struct buf *b, const char *program)
{
    size_t start = frame_begin(b, FRAME_HELLO);
    frame_put_u32(b, ENGINE_PROTOCOL_VERSION);
    message_put_string(b, program);
    frame_end(b, start);
}

bool message_get_hello(const struct frame *f, struct err *e)
{
    struct frame_reader r;
    char program[128];
    frame_reader_init(&r, f);
    uint32_t version = frame_get_u32(&r);
    message_get_string(&r, program, sizeof program);
    if (f->type != FRAME_HELLO || r.failed)
        return malformed(e, "HELLO");
    /* a later version may say more after the name: only the number decides */
    if (version != ENGINE_PROTOCOL_VERSION)
        return err_set(e, ERR_UNSUPPORTED, "protocol version %u, this side speaks %d", version,
                       ENGINE_PROTOCOL_VERSION);
    return true;
}

static bool in_range(const char *field, float v, float min, float max, struct err *e)
{
    if (isfinite(v) && v >= min && v <= max)
        return true;
    return err_field(e, ERR_INPUT, field, "%g, expected %g to %g", (double)v, (double)min,
                     (double)max);
}

static bool check_sampling(const struct engine_sampling *s, struct err *e)
{
    if (!in_range("temperature", s->temperature, 0, 100, e) ||
        !in_range("top_p", s->top_p, 0, 1, e) || !in_range("min_p", s->min_p, 0, 1, e) ||
        !in_range("typical_p", s->typical_p, 0, 1, e) ||
        !in_range("repetition_penalty", s->repetition_penalty, 0.01f, 100, e) ||
        !in_range("presence_penalty", s->presence_penalty, -100, 100, e) ||
        !in_range("frequency_penalty", s->frequency_penalty, -100, 100, e))
        return false;
    if (s->top_k < 0)
        return err_field(e, ERR_INPUT, "top_k", "%d, expected 0 or more", s->top_k);
    if (s->penalty_window < 0)
        return err_field(e, ERR_INPUT, "penalty_window", "%d, expected 0 or more",
                         s->penalty_window);
    if (s->n_bias < 0 || s->n_bias > ENGINE_MAX_BIAS)
        return err_field(e, ERR_INPUT, "logit_bias", "%d entries, at most %d", s->n_bias,
                         ENGINE_MAX_BIAS);
    for (int32_t i = 0; i < s->n_bias; i++)
        if (!isfinite(s->bias[i].bias) || fabsf(s->bias[i].bias) > 1e6f || s->bias[i].id < 0)
            return err_field(e, ERR_INPUT, "logit_bias",
                             "entry %d is not a token id and a finite bias", i);
    return true;
}

static bool check_stops(const struct engine_job_params *p, struct err *e)
{
    if (p->n_stop < 0 || p->n_stop > ENGINE_MAX_STOP)
        return err_field(e, ERR_INPUT, "stop", "%d strings, at most %d", p->n_stop,
                         ENGINE_MAX_STOP);
    for (int32_t i = 0; i < p->n_stop; i++) {
        size_t len = strlen(p->stop[i]);
        if (!len || len > ENGINE_MAX_STOP_BYTES)
            return err_field(e, ERR_INPUT, "stop", "string %d has %zu bytes, expected 1 to %d", i,
                             len, ENGINE_MAX_STOP_BYTES);
        /* Text is sent in whole characters; a stop that begins inside one could split it. */
        if (((unsigned char)p->stop[i][0] & 0xc0) == 0x80)
            return err_field(e, ERR_INPUT, "stop", "string %d is not UTF-8", i);
    }
    return true;
}

static bool check_ids(const char *field, const int32_t *ids, int32_t n, int32_t most, struct err *e)
{
    if (n < 0 || n > most)
        return err_field(e, ERR_INPUT, field, "%d token ids, at most %d", n, most);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0)
            return err_field(e, ERR_INPUT, field, "%d is not a token id", ids[i]);
    return true;
}

static bool check_banned(const struct engine_job_params *p, struct err *e)
{
    if (!check_ids("banned", p->banned, p->n_banned, ENGINE_MAX_BANNED, e))
        return false;
    for (int32_t i = 0; i < p->n_banned; i += 1 + p->banned[i])
        if (p->banned[i] < 1 || p->banned[i] >= p->n_banned - i)
            return err_field(e, ERR_INPUT, "banned", "a sequence of %d tokens is not there",
                             p->banned[i]);
    return true;
}

static bool check_rules(const struct engine_job_params *p, struct err *e)
{
    if (p->min_tokens < 0)
        return err_field(e, ERR_INPUT, "min_tokens", "%d, expected 0 or more", p->min_tokens);
    return check_ids("stop_ids", p->stop_ids, p->n_stop_ids, ENGINE_MAX_STOP_IDS, e) &&
           check_ids("allowed_ids", p->allowed_ids, p->n_allowed_ids, ENGINE_MAX_ALLOWED_IDS, e) &&
           check_banned(p, e);
}

static bool terminated(const char *s, size_t size)
{
    return memchr(s, 0, size) != NULL;
}

/* Whether the blocks are the prompt's is checked by the engine, which knows the keys. */
static bool check_stored(const struct engine_job_params *p, struct err *e)
{
    if (p->n_stored < 0 || p->n_stored > ENGINE_MAX_STORED ||
        p->n_stored > p->n_prompt / ENGINE_STORED_TOKENS)
        return err_field(e, ERR_INPUT, "stored", "%d blocks of a prompt of %d tokens", p->n_stored,
                         p->n_prompt);
    if (!terminated(p->cache_owner, sizeof p->cache_owner))
        return err_field(e, ERR_INPUT, "cache_owner", "longer than %zu characters",
                         sizeof p->cache_owner - 1);
    if (p->cache_keep_seconds < -1)
        return err_field(e, ERR_INPUT, "cache_keep_seconds", "%lld, expected -1 or more",
                         (long long)p->cache_keep_seconds);
    return true;
}

bool message_check_params(const struct engine_job_params *p, struct err *e)
{
    if (p->n_prompt < 1)
        return err_field(e, ERR_INPUT, "prompt", "the prompt is empty");
    if (p->n_prompt > ENGINE_MAX_PROMPT)
        return err_field(e, ERR_LIMIT, "prompt", "%d tokens, at most %d are taken", p->n_prompt,
                         ENGINE_MAX_PROMPT);
    if (p->max_tokens < 0)
        return err_field(e, ERR_INPUT, "max_tokens", "%d, expected 0 or more", p->max_tokens);
    if (p->top_logprobs < -1 || p->top_logprobs > ENGINE_MAX_TOP_LOGPROBS)
        return err_field(e, ERR_INPUT, "top_logprobs", "%d, expected 0 to %d", p->top_logprobs,
                         ENGINE_MAX_TOP_LOGPROBS);
    if (p->prompt_scores < 0 || p->prompt_scores > 1 + ENGINE_MAX_TOP_LOGPROBS)
        return err_field(e, ERR_INPUT, "prompt_scores", "%d, expected 0 to %d", p->prompt_scores,
                         1 + ENGINE_MAX_TOP_LOGPROBS);
    if (p->n_grammar > ENGINE_MAX_GRAMMAR_BYTES)
        return err_field(e, ERR_LIMIT, "grammar", "%u bytes once compiled, at most %u are taken",
                         p->n_grammar, ENGINE_MAX_GRAMMAR_BYTES);
    if (p->experts_per_token < 0 || p->experts_per_token > ENGINE_MAX_EXPERTS_PER_TOKEN)
        return err_field(e, ERR_INPUT, "experts_per_token", "%d, expected 0 to %d",
                         p->experts_per_token, ENGINE_MAX_EXPERTS_PER_TOKEN);
    if ((uint32_t)p->speculate >= ENGINE_SPECULATE__N)
        return err_field(e, ERR_INPUT, "speculate", "%d is no drafter", (int)p->speculate);
    if (p->priority < 0 || p->priority > 1)
        return err_field(e, ERR_INPUT, "priority", "%d, expected 0 or 1", p->priority);
    if (!terminated(p->answer_format, sizeof p->answer_format) || p->answer_begins < 0 ||
        p->answer_begins > 2)
        return err_field(e, ERR_INPUT, "answer_format",
                         "is too long, or its answer begins at a place %d, expected 0 to 2",
                         p->answer_begins);
    if (!terminated(p->key, sizeof p->key) || !terminated(p->scope, sizeof p->scope) ||
        !terminated(p->request_id, sizeof p->request_id))
        return err_field(e, ERR_INPUT, "key", "key, scope or request id is too long");
    if (!check_stored(p, e) || !message_check_texts(p, e))
        return false;
    if (p->detached && (!p->key[0] || p->key[0] == '#'))
        return err_field(e, ERR_INPUT, "key",
                         "a detached job needs a key that does not begin with '#'");
    return check_ids("prediction", p->prediction, p->n_prediction, ENGINE_MAX_PREDICTION, e) &&
           check_sampling(&p->sampling, e) && check_stops(p, e) && check_rules(p, e);
}

static void put_ids(struct buf *b, const int32_t *ids, int32_t n)
{
    frame_put_u32(b, (uint32_t)n);
    for (int32_t i = 0; i < n; i++)
        frame_put_u32(b, (uint32_t)ids[i]);
}

static void put_sampling(struct buf *b, const struct engine_sampling *s)
{
    frame_put_f32(b, s->temperature);
    frame_put_f32(b, s->top_p);
    frame_put_f32(b, s->min_p);
    frame_put_u32(b, (uint32_t)s->top_k);
    frame_put_f32(b, s->typical_p);
    frame_put_f32(b, s->repetition_penalty);
    frame_put_f32(b, s->presence_penalty);
    frame_put_f32(b, s->frequency_penalty);
    frame_put_u32(b, (uint32_t)s->penalty_window);
    frame_put_u64(b, s->seed);
    frame_put_u32(b, (uint32_t)s->n_bias);
    for (int32_t i = 0; i < s->n_bias; i++) {
        frame_put_u32(b, (uint32_t)s->bias[i].id);
        frame_put_f32(b, s->bias[i].bias);
    }
}

static void put_stops(struct buf *b, const struct engine_job_params *p)
{
    frame_put_u32(b, (uint32_t)p->n_stop);
    for (int32_t i = 0; i < p->n_stop; i++)
        message_put_string(b, p->stop[i]);
    put_ids(b, p->stop_ids, p->n_stop_ids);
    frame_put_u32(b, (uint32_t)p->min_tokens);
    put_ids(b, p->allowed_ids, p->n_allowed_ids);
    put_ids(b, p->banned, p->n_banned);
}

bool message_put_submit(struct buf *b, const struct engine_job_params *p, struct err *e)
{
    if (!message_check_params(p, e))
        return false;
    size_t start = frame_begin(b, FRAME_SUBMIT);
    put_ids(b, p->prompt, p->n_prompt);
    frame_put_u32(b, (uint32_t)p->max_tokens);
    put_sampling(b, &p->sampling);
    put_stops(b, p);
    message_put_string(b, p->answer_format);
    frame_put_u32(b, (uint32_t)p->answer_begins);
    frame_put_u32(b, (uint32_t)p->prompt_scores);
    frame_put_u32(b, (uint32_t)p->top_logprobs);
    frame_put_u32(
        b, (p->ignore_eos ? SUBMIT_IGNORE_EOS : 0u) | (p->special_text ? SUBMIT_SPECIAL_TEXT : 0u) |
               (p->detached ? SUBMIT_DETACHED : 0u) | (p->keep_stop ? SUBMIT_KEEP_STOP : 0u));
    message_put_string(b, p->key);
    frame_put_u64(b, p->user);
    message_put_string(b, p->scope);
    cache_message_put_refs(b, p->stored, p->n_stored);
    message_put_string(b, p->cache_owner);
    frame_put_u64(b, (uint64_t)p->cache_keep_seconds);
    frame_put_u64(b, (uint64_t)p->cache_forgets_seen);
    frame_put_bytes(b, p->cache_seal.key, p->cache_seal.on ? sizeof p->cache_seal.key : 0);
    message_put_string(b, p->request_id);
    frame_put_u32(b, (uint32_t)p->priority);
    frame_put_u32(b, (uint32_t)p->experts_per_token);
    frame_put_u32(b, (uint32_t)p->speculate);
    put_ids(b, p->prediction, p->n_prediction);
    frame_put_bytes(b, p->grammar, p->n_grammar);
    message_put_texts(b, p);
    frame_end(b, start);
    if (b->failed)
        return err_set(e, ERR_NOMEM, "no memory for a prompt of %d tokens", p->n_prompt);
    return true;
}

struct id_list { /* where a list of token ids goes, and its limit */
    const int32_t **ids;
    int32_t *n;
    uint32_t max;
};

static bool get_ids(struct frame_reader *r, const struct id_list *to, struct arena *a,
                    struct err *e)
{
    uint32_t n = frame_get_u32(r);
    if (r->failed || n > to->max || (size_t)(r->end - r->at) < (size_t)n * 4)
        return malformed(e, "SUBMIT");
    int32_t *ids = arena_alloc(a, n ? (size_t)n * sizeof *ids : 1);
    if (!ids)
        return err_set(e, ERR_NOMEM, "no memory for %u tokens", n);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)frame_get_u32(r);
    *to->ids = ids;
    *to->n = (int32_t)n;
    return true;
}

static bool get_bias(struct frame_reader *r, struct engine_sampling *s, struct arena *a,
                     struct err *e)
{
    uint32_t n = frame_get_u32(r);
    if (r->failed || n > ENGINE_MAX_BIAS)
        return malformed(e, "SUBMIT");
    struct engine_bias *bias = arena_alloc(a, n ? n * sizeof *bias : 1);
    if (!bias)
        return err_set(e, ERR_NOMEM, "no memory for the logit biases");
    for (uint32_t i = 0; i < n; i++) {
        bias[i].id = (int32_t)frame_get_u32(r);
        bias[i].bias = frame_get_f32(r);
    }
    s->bias = bias;
    s->n_bias = (int32_t)n;
    return true;
}

static bool get_stops(struct frame_reader *r, struct engine_job_params *p, struct arena *a,
                      struct err *e)
{
    uint32_t n = frame_get_u32(r);
    if (r->failed || n > ENGINE_MAX_STOP)
        return malformed(e, "SUBMIT");
    const char **stop = arena_alloc(a, n ? n * sizeof *stop : 1);
    for (uint32_t i = 0; stop && i < n; i++) {
        char text[ENGINE_MAX_STOP_BYTES + 1];
        message_get_string(r, text, sizeof text);
        stop[i] = arena_strdup(a, text);
        if (!stop[i])
            stop = NULL;
    }
    if (!stop)
        return err_set(e, ERR_NOMEM, "no memory for the stop strings");
    p->stop = stop;
    p->n_stop = (int32_t)n;
    const struct id_list stop_ids = {&p->stop_ids, &p->n_stop_ids, ENGINE_MAX_STOP_IDS};
    const struct id_list allowed = {&p->allowed_ids, &p->n_allowed_ids, ENGINE_MAX_ALLOWED_IDS};
    const struct id_list banned = {&p->banned, &p->n_banned, ENGINE_MAX_BANNED};
    if (!get_ids(r, &stop_ids, a, e))
        return false;
    p->min_tokens = (int32_t)frame_get_u32(r);
    return get_ids(r, &allowed, a, e) && get_ids(r, &banned, a, e);
}

static bool get_grammar(struct frame_reader *r, struct engine_job_params *p, struct arena *a,
                        struct err *e)
{
    const char *bytes = frame_get_bytes(r, ENGINE_MAX_GRAMMAR_BYTES, &p->n_grammar);
    if (!p->n_grammar)
        return true;
    void *copy = arena_alloc(a, p->n_grammar); /* aligned, as a program must be */
    if (!copy)
        return err_set(e, ERR_NOMEM, "no memory for a grammar of %u bytes", p->n_grammar);
    memcpy(copy, bytes, p->n_grammar);
    p->grammar = copy;
    return true;
}

static bool get_cache(struct frame_reader *r, struct engine_job_params *p, struct arena *a,
                      struct err *e)
{
    if (!cache_message_get_refs(r, &p->stored, &p->n_stored, a))
        return r->failed ? malformed(e, "SUBMIT")
                         : err_set(e, ERR_NOMEM, "no memory for references to stored blocks");
    message_get_string(r, p->cache_owner, sizeof p->cache_owner);
    p->cache_keep_seconds = (int64_t)frame_get_u64(r);
    p->cache_forgets_seen = (int64_t)frame_get_u64(r);
    uint32_t len;
    const char *key = frame_get_bytes(r, sizeof p->cache_seal.key, &len);
    p->cache_seal.on = len == sizeof p->cache_seal.key;
    if (p->cache_seal.on)
        memcpy(p->cache_seal.key, key, len);
    return !len || p->cache_seal.on || malformed(e, "SUBMIT");
}

bool message_get_submit(const struct frame *f, struct engine_job_params *p, struct arena *a,
                        struct err *e)
{
    struct frame_reader r;
    struct engine_sampling *s = &p->sampling;
    *p = (struct engine_job_params){0};
    frame_reader_init(&r, f);
    if (!get_ids(&r, &(struct id_list){&p->prompt, &p->n_prompt, ENGINE_MAX_PROMPT}, a, e))
        return false;
    p->max_tokens = (int32_t)frame_get_u32(&r);
    s->temperature = frame_get_f32(&r);
    s->top_p = frame_get_f32(&r);
    s->min_p = frame_get_f32(&r);
    s->top_k = (int32_t)frame_get_u32(&r);
    s->typical_p = frame_get_f32(&r);
    s->repetition_penalty = frame_get_f32(&r);
    s->presence_penalty = frame_get_f32(&r);
    s->frequency_penalty = frame_get_f32(&r);
    s->penalty_window = (int32_t)frame_get_u32(&r);
    s->seed = frame_get_u64(&r);
    if (!get_bias(&r, s, a, e) || !get_stops(&r, p, a, e))
        return false;
    message_get_string(&r, p->answer_format, sizeof p->answer_format);
    p->answer_begins = (int32_t)frame_get_u32(&r);
    p->prompt_scores = (int32_t)frame_get_u32(&r);
    p->top_logprobs = (int32_t)frame_get_u32(&r);
    uint32_t flags = frame_get_u32(&r);
    p->ignore_eos = flags & SUBMIT_IGNORE_EOS;
    p->special_text = flags & SUBMIT_SPECIAL_TEXT;
    p->detached = flags & SUBMIT_DETACHED;
    p->keep_stop = flags & SUBMIT_KEEP_STOP;
    message_get_string(&r, p->key, sizeof p->key);
    p->user = frame_get_u64(&r);
    message_get_string(&r, p->scope, sizeof p->scope);
    if (!get_cache(&r, p, a, e))
        return false;
    message_get_string(&r, p->request_id, sizeof p->request_id);
    p->priority = (int32_t)frame_get_u32(&r);
    p->experts_per_token = (int32_t)frame_get_u32(&r);
    p->speculate = (enum engine_speculate)frame_get_u32(&r);
    const struct id_list prediction = {&p->prediction, &p->n_prediction, ENGINE_MAX_PREDICTION};
    if (!get_ids(&r, &prediction, a, e) || !get_grammar(&r, p, a, e) ||
        !message_get_texts(&r, p, a, e))
        return false;
    if (!at_end(&r) || flags > SUBMIT_ALL)
        return malformed(e, "SUBMIT");
    return message_check_params(p, e);
}

void message_put_key(struct buf *b, enum frame_type type, const char *key)
{
    size_t start = frame_begin(b, type);
    message_put_string(b, key ? key : "");
    frame_end(b, start);
}

bool message_get_key(const struct frame *f, char key[ENGINE_KEY_SIZE], struct err *e)
{
    struct frame_reader r;
    key[0] = 0;
    if (!f->len)
        return true;
    frame_reader_init(&r, f);
    message_get_string(&r, key, ENGINE_KEY_SIZE);
    return at_end(&r) || malformed(e, "key");
}
