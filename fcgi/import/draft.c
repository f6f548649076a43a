/* Collects an imported conversation: its nodes, texts and key. The tree is put in order by
 * draft_tree.c. */
#include "fcgi/import/draft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/conversations/title.h"
#include "fcgi/import/draft_tree.h"
#include "sql/core/digest.h"

#define TITLE_BYTES_READ 65536 /* longer: no title but an attack or a mistake */
#define SYSTEM_BYTES 32768     /* that a setting takes; a longer prompt becomes a message */
#define LAST_TIME INT64_C(253402300799999) /* the year 9999 */

void draft_begin(struct draft *d, struct arena *arena)
{
    *d = (struct draft){
        .arena = arena, .source_id = "", .out = {.title = "", .settings = "{}", .leaf = -1}};
}

void draft_end(struct draft *d)
{
    free(d->nodes);
    d->nodes = NULL;
}

bool draft_no_memory(struct err *e)
{
    return err_set(e, ERR_LIMIT, "this conversation needs more memory than an import may take");
}

struct draft_node *draft_add(struct draft *d, const char *id, const char *parent, struct err *e)
{
    if (d->n_nodes == d->cap_nodes) {
        int cap = d->cap_nodes ? d->cap_nodes * 2 : 64;
        struct draft_node *more = realloc(d->nodes, (size_t)cap * sizeof *more);
        if (!more) {
            draft_no_memory(e);
            return NULL;
        }
        d->nodes = more;
        d->cap_nodes = cap;
    }
    struct draft_node *n = &d->nodes[d->n_nodes++];
    *n = (struct draft_node){.id = id,
                             .parent = parent && *parent ? parent : NULL,
                             .message = {.parent = -1, .content = "", .reasoning = ""}};
    return n;
}

static int64_t sane_time(double ms)
{
    return isfinite(ms) && ms >= 1 && ms <= (double)LAST_TIME ? (int64_t)ms : 0;
}

int64_t draft_seconds(const cJSON *number)
{
    return cJSON_IsNumber(number) ? sane_time(floor(number->valuedouble * 1000 + 0.5)) : 0;
}

int64_t draft_iso_time(const char *text)
{
    struct tm t = {0};
    int n = 0, hours = 0, minutes = 0;
    char sign = '+';
    double seconds;
    if (!text ||
        sscanf(text, "%4d-%2d-%2d%*1[Tt ]%2d:%2d:%lf%n", &t.tm_year, &t.tm_mon, &t.tm_mday,
               &t.tm_hour, &t.tm_min, &seconds, &n) != 6 ||
        t.tm_year < 1970 || !(seconds >= 0 && seconds < 62))
        return 0;
    if (text[n] == '+' || text[n] == '-') {
        sign = text[n];
        if (sscanf(text + n + 1, "%2d:%2d", &hours, &minutes) != 2)
            return 0;
    }
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    double at =
        (double)timegm(&t) + seconds - (sign == '-' ? -1 : 1) * (hours * 3600.0 + minutes * 60.0);
    return sane_time(floor(at * 1000 + 0.5));
}

bool draft_title(struct draft *d, const char *title, struct err *e)
{
    if (!title)
        return true;
    size_t len = strnlen(title, TITLE_BYTES_READ + 1);
    if (len > TITLE_BYTES_READ)
        return err_field(e, ERR_INPUT, "title", "is longer than %d bytes", TITLE_BYTES_READ);
    if (len > STORE_TITLE_BYTES)
        for (len = STORE_TITLE_BYTES; len > 0 && ((unsigned char)title[len] & 0xC0) == 0x80; len--)
            ;
    char *copy = arena_copy(d->arena, title, len);
    if (!copy)
        return draft_no_memory(e);
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = ' ';
    d->out.title = copy;
    return true;
}

void draft_tag(struct draft *d, const char *tag)
{
    size_t len = tag ? strlen(tag) : 0;
    if (!len || len > STORE_TAG_BYTES || d->out.n_tags == STORE_TAGS_MAX)
        return;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)tag[i] < 0x20 || tag[i] == 0x7F)
            return;
    d->tags[d->out.n_tags++] = tag;
}

const char *draft_join(struct draft *d, const char *a, const char *separator, const char *b,
                       struct err *e)
{
    if (!a || !*a)
        return b ? b : "";
    if (!b || !*b)
        return a;
    const size_t n = strlen(a), between = strlen(separator), m = strlen(b);
    char *out = arena_alloc(d->arena, n + between + m + 1);
    if (!out) {
        draft_no_memory(e);
        return NULL;
    }
    memcpy(out, a, n);
    memcpy(out + n, separator, between);
    memcpy(out + n + between, b, m + 1);
    return out;
}

static const char *own(struct draft *d, struct buf *b, struct err *e)
{
    const char *copy = b->failed ? NULL : arena_copy(d->arena, b->data ? b->data : "", b->len);
    buf_fini(b);
    if (!copy)
        draft_no_memory(e);
    return copy;
}

const char *draft_call(struct draft *d, const char *id, const char *name, const char *arguments,
                       struct err *e)
{
    struct buf b = {0}, wrapped = {0};
    cJSON *object = arguments[strspn(arguments, " \t\r\n")] == '{'
                        ? json_parse(arguments, strlen(arguments), NULL, NULL)
                        : NULL;
    if (!object) { /* code, a search text: calls have arguments by name */
        buf_puts(&wrapped, "{\"input\":");
        buf_json_string(&wrapped, arguments, strlen(arguments));
        buf_putc(&wrapped, '}');
    }
    const char *text = object ? arguments : wrapped.data ? wrapped.data : "";
    buf_puts(&b, "[{\"id\":");
    buf_json_string(&b, id, strlen(id));
    buf_puts(&b, ",\"type\":\"function\",\"function\":{\"name\":");
    buf_json_string(&b, name, strlen(name));
    buf_puts(&b, ",\"arguments\":");
    buf_json_string(&b, text, strlen(text));
    buf_puts(&b, "}}]");
    b.failed |= wrapped.failed;
    buf_fini(&wrapped);
    cJSON_Delete(object);
    return own(d, &b, e);
}

const char *draft_file_text(struct draft *d, const char *name, const char *text, struct err *e)
{
    struct buf b = {0};
    size_t fence = 3, run = 0;
    for (const char *p = text; *p; p++) { /* longer than any fence inside */
        run = *p == '`' ? run + 1 : 0;
        fence = run >= fence ? run + 1 : fence;
    }
    buf_printf(&b, "%s:\n", name && *name ? name : "file");
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < fence && !b.failed; i++)
            buf_putc(&b, '`');
        if (!pass) {
            buf_putc(&b, '\n');
            buf_puts(&b, text);
            buf_puts(&b, *text && text[strlen(text) - 1] == '\n' ? "" : "\n");
        }
    }
    return own(d, &b, e);
}

static void digest_text(struct digest *h, const char *text)
{
    digest_add(h, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* The same for the same content, on every server; another one when the conversation has grown
 * since. */
static bool make_key(struct draft *d, const char *format, struct err *e)
{
    struct digest h;
    char hex[DIGEST_TEXT_SIZE];
    digest_begin(&h);
    digest_text(&h, d->source_id);
    for (int i = 0; i < d->out.n_messages; i++) {
        const struct store_import_message *m = &d->out.messages[i];
        const unsigned char head[] = {
            (unsigned char)m->role, (unsigned char)m->parent, (unsigned char)(m->parent >> 8),
            (unsigned char)(m->parent >> 16), (unsigned char)(m->parent >> 24)};
        digest_add(&h, head, sizeof head);
        digest_text(&h, m->content);
        digest_text(&h, m->reasoning);
        digest_text(&h, m->tool_calls);
    }
    digest_end(&h, hex);
    d->out.key = arena_printf(d->arena, "%s:%.32s", format, hex);
    return d->out.key || draft_no_memory(e);
}

static bool make_settings(struct draft *d, struct err *e)
{
    struct buf b = {0};
    if (!d->system || !*d->system)
        return true;
    if (strlen(d->system) > SYSTEM_BYTES)
        return err_field(e, ERR_INPUT, "system", "the system prompt is longer than %d bytes",
                         SYSTEM_BYTES);
    buf_puts(&b, "{\"system\":");
    buf_json_string(&b, d->system, strlen(d->system));
    buf_putc(&b, '}');
    return (d->out.settings = own(d, &b, e)) != NULL;
}

static bool fill_title(struct draft *d, struct err *e)
{
    char title[TITLE_SIZE] = "";
    for (int i = 0; i < d->out.n_messages && !*d->out.title && !*title; i++)
        if (d->out.messages[i].role == ROLE_USER)
            title_make(d->out.messages[i].content, title);
    if (*title)
        d->out.title = arena_strdup(d->arena, title);
    return d->out.title || draft_no_memory(e);
}

static void fill_times(struct draft *d, struct store_import_message *messages)
{
    struct store_import *c = &d->out;
    for (int i = 0; i < c->n_messages && !c->created_at; i++)
        c->created_at = messages[i].created_at;
    if (!c->created_at)
        c->created_at = c->updated_at ? c->updated_at : clock_wall_ms();
    for (int i = 0; i < c->n_messages; i++) {
        struct store_import_message *m = &messages[i];
        if (!m->created_at)
            m->created_at = m->parent >= 0 ? messages[m->parent].created_at : c->created_at;
        if (!m->finished_at)
            m->finished_at = m->created_at;
        if (c->updated_at < m->finished_at && m->finished_at <= clock_wall_ms())
            c->updated_at = m->finished_at;
    }
    if (c->updated_at < c->created_at)
        c->updated_at = c->created_at;
}

/* One system prompt and no other: it is the conversation's setting. */
static void take_system(struct draft *d)
{
    int n = 0, at = 0;
    for (int i = 0; i < d->n_nodes; i++)
        if (!d->nodes[i].hidden && d->nodes[i].message.role == ROLE_SYSTEM) {
            n++;
            at = i;
        }
    if (n == 1 && (!d->system || !*d->system) &&
        strlen(d->nodes[at].message.content) <= SYSTEM_BYTES) {
        d->system = d->nodes[at].message.content;
        d->nodes[at].hidden = true;
    }
}

/* A tool's result without a call's name answers the call above it; between them stand at most other
 * results. */
static bool bind_results(struct draft *d, struct store_import_message *messages, struct err *e)
{
    for (int i = 0; i < d->out.n_messages; i++) {
        struct store_import_message *m = &messages[i];
        const struct store_import_message *above = m->parent >= 0 ? &messages[m->parent] : NULL;
        if (m->role != ROLE_TOOL || m->tool_call_id || !above)
            continue;
        if (above->role == ROLE_TOOL) {
            m->tool_call_id = above->tool_call_id;
        } else if (above->tool_calls) {
            cJSON *calls = json_parse(above->tool_calls, strlen(above->tool_calls), NULL, NULL);
            const cJSON *id = json_member(cJSON_GetArrayItem(calls, 0), "id");
            m->tool_call_id = cJSON_IsString(id) ? arena_strdup(d->arena, id->valuestring) : NULL;
            const bool ok = !cJSON_IsString(id) || m->tool_call_id;
            cJSON_Delete(calls);
            if (!ok)
                return draft_no_memory(e);
        }
    }
    return true;
}

bool draft_finish(struct draft *d, const char *format, struct err *e)
{
    struct store_import_message *messages;
    take_system(d);
    if (!draft_order(d, &messages, e))
        return false;
    d->out.tags = d->tags;
    if (!d->out.n_messages)
        return err_set(e, ERR_INPUT, "there is no message in this conversation");
    fill_times(d, messages);
    return bind_results(d, messages, e) && fill_title(d, e) && make_settings(d, e) &&
           make_key(d, format, e);
}
