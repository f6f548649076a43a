/* text_cases.h: the tokenizer cases of tests/data/tokenizers (or of --cases DIR), for the text
 * tests. */
#include "tests/unit/text/text_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/json/json.h"
#include "tests/unit/support/packed_file.h"

static const char mark[] = "\xEF\xB7\x90"; /* U+FDD0 stands for NUL, which C strings can't hold */

static void die(const char *what)
{
    fprintf(stderr, "text_cases: %s\n", what);
    abort();
}

const char *text_cases_path(const char *path)
{
    static char full[4096];
    const char *srcdir = getenv("srcdir");
    snprintf(full, sizeof full, "%s/%s", srcdir ? srcdir : ".", path);
    return full;
}

static void put_text(struct buf *b, const cJSON *o, const char *name)
{
    const cJSON *v = json_member(o, name);
    const char *s = cJSON_IsString(v) ? v->valuestring : "", *next;
    while ((next = strstr(s, mark))) {
        buf_append(b, s, (size_t)(next - s));
        buf_putc(b, 0);
        s = next + 3;
    }
    buf_puts(b, s);
}

static void put_ids(struct ids *ids, const cJSON *list)
{
    for (const cJSON *i = list ? list->child : NULL; i; i = i->next)
        ids_push(ids, i->valueint);
}

static void put_input(struct buf *b, const cJSON *o)
{
    const cJSON *hex = json_member(o, "bytes_hex");
    unsigned byte;
    if (!hex)
        put_text(b, o, "text");
    for (const char *p = hex ? hex->valuestring : ""; sscanf(p, "%2x", &byte) == 1; p += 2)
        buf_putc(b, (char)byte);
}

static void read_case(struct text_case *c, const cJSON *o)
{
    const cJSON *id = json_member(o, "id"), *emit = json_member(o, "emit");
    snprintf(c->id, sizeof c->id, "%s", id ? id->valuestring : "?");
    put_input(&c->input, o);
    put_text(&c->decoded, o,
             json_member(o, "decoded") ? "decoded"
             : json_member(o, "full")  ? "full"
                                       : "text");
    put_text(&c->flush, o, "flush");
    put_ids(&c->ids, json_member(o, "ids"));
    const cJSON *plain = json_member(o, "ids_plain");
    if (plain || json_member(o, "group")) /* only those cases say */
        put_ids(&c->ids_plain, plain ? plain : json_member(o, "ids"));
    for (const cJSON *e = emit ? emit->child : NULL; e; e = e->next) {
        struct buf b = {0};
        cJSON *holder = cJSON_CreateObject();
        cJSON_AddItemToObject(holder, "s", cJSON_Duplicate(e, true));
        put_text(&b, holder, "s");
        cJSON_Delete(holder);
        c->emit = realloc(c->emit, (c->n_emit + 1) * sizeof *c->emit);
        c->emit[c->n_emit++] = b;
    }
}

static void add_case(struct text_cases *c, const cJSON *o)
{
    c->at = realloc(c->at, (c->n + 1) * sizeof *c->at);
    c->at[c->n] = (struct text_case){.n_emit = 0};
    read_case(&c->at[c->n++], o);
}

/* One line, or the whole of a file that is one array. */
static void read_line(struct text_cases *c, const char *p, const char *end)
{
    struct buf line = {0};
    struct err e = {0};
    for (; p < end; p++) {
        if (end - p >= 6 && !memcmp(p, "\\u0000", 6) && p[-1] != '\\') {
            buf_puts(&line, mark);
            p += 5;
        } else {
            buf_putc(&line, *p);
        }
    }
    cJSON *o = json_parse(line.data, line.len, NULL, &e);
    if (!o)
        die(e.text);
    if (cJSON_IsArray(o))
        for (const cJSON *i = o->child; i; i = i->next)
            add_case(c, i);
    else
        add_case(c, o);
    cJSON_Delete(o);
    buf_fini(&line);
}

void text_cases_read(struct text_cases *c, const char *dir, const char *name, const char *file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s", dir, name, file);
    struct buf b = packed_file_read(path);
    for (char *p = b.data, *end; p < b.data + b.len; p = end + 1) {
        end = *p == '[' ? NULL : memchr(p, '\n', (size_t)(b.data + b.len - p));
        if (!end)
            end = b.data + b.len;
        if (end > p)
            read_line(c, p, end);
    }
    buf_fini(&b);
}

void text_cases_free(struct text_cases *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct text_case *t = &c->at[i];
        buf_fini(&t->input);
        buf_fini(&t->decoded);
        buf_fini(&t->flush);
        ids_fini(&t->ids);
        ids_fini(&t->ids_plain);
        for (size_t k = 0; k < t->n_emit; k++)
            buf_fini(&t->emit[k]);
        free(t->emit);
    }
    free(c->at);
    *c = (struct text_cases){0};
}

struct vocab *text_cases_vocab(const char *dir, const char *name)
{
    char path[4096], at[4096];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s/tokenizer.json", dir, name);
    const bool temporary = packed_file_place(path, at, sizeof at);
    struct vocab *v = vocab_load(at, NULL, &e);
    if (!v)
        die(e.text);
    if (temporary)
        unlink(at);
    return v;
}

struct vocab *text_cases_inline(const char *json, struct err *e)
{
    char path[] = "/tmp/sluice-test-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, json, strlen(json)) != (ssize_t)strlen(json))
        die("no temporary file");
    close(fd);
    struct vocab *v = vocab_load(path, NULL, e);
    unlink(path);
    return v;
}

const char *text_cases_json(const struct text_parts *p)
{
    static struct buf b;
    buf_clear(&b);
    buf_printf(&b, "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":{%s",
               p->added ? p->added : "", p->normalizer ? p->normalizer : "null",
               p->pre_tokenizer ? p->pre_tokenizer
                                : "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                                  "\"use_regex\":false}",
               p->model ? p->model : "\"type\":\"BPE\",");
    buf_puts(&b, "\"vocab\":{");
    for (int c = 0, next = 256; c < 256; c++) {
        int cp = (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || c >= 174 ? c : next++;
        buf_printf(&b, "%s\"\\u%04x\":%d", c ? "," : "", cp, c);
    }
    buf_printf(&b, "%s},\"merges\":[%s]}}", p->vocab ? p->vocab : "", p->merges ? p->merges : "");
    return b.data;
}
