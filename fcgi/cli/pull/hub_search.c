/* Asks a hub for models by a word, or reads the file of known ones, and plans each of them by its
 * heads. */
#include "fcgi/cli/pull/hub_search.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engine/base/json/json.h"
#include "engine/memory/machine.h"
#include "engine/memory/memory_text.h"

enum { KNOWN_MAX = 1 << 20, ASKED_FOR = 3 /* times the limit, since not all can be run */ };

/* ---- what there is ---- */

/* Kinds of files that can be read; a hub that tags nothing is believed. */
static bool is_readable(const cJSON *entry)
{
    static const char *const kinds[] = {"gguf", "safetensors", "mlx"};
    const cJSON *tags = cJSON_GetObjectItem(entry, "tags"), *tag;
    if (!cJSON_IsArray(tags))
        return true;
    cJSON_ArrayForEach (tag, tags)
        for (size_t i = 0; cJSON_IsString(tag) && i < sizeof kinds / sizeof kinds[0]; i++)
            if (!strcasecmp(tag->valuestring, kinds[i]))
                return true;
    return false;
}

static bool is_true(const cJSON *v) /* "auto" and "manual" are ways of being gated */
{
    return cJSON_IsTrue(v) || cJSON_IsString(v);
}

static int64_t count(const cJSON *entry, const char *name)
{
    const cJSON *v = cJSON_GetObjectItem(entry, name);
    return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < 1e15
               ? (int64_t)v->valuedouble
               : -1;
}

/* A hub's text is not ours: what is no name of a repository is passed over. */
static void take(struct hub_search *s, const cJSON *entry)
{
    const char *id = NULL;
    struct pull_repo repo;
    struct err ignored = {0};
    if (s->n >= s->limit || !cJSON_IsObject(entry) ||
        (!json_get_string(entry, "id", &id, &ignored) || !id) || strchr(id, '@') ||
        !strchr(id, '/') || !pull_repo_split(id, &repo, &ignored) || !is_readable(entry) ||
        cJSON_IsTrue(cJSON_GetObjectItem(entry, "disabled")))
        return;
    struct hub_found *f = &s->found[s->n++];
    *f = (struct hub_found){.downloads = count(entry, "downloads"),
                            .likes = count(entry, "likes"),
                            .gated = is_true(cJSON_GetObjectItem(entry, "gated"))};
    snprintf(f->repo, sizeof f->repo, "%s", repo.repo);
}

static char *search_url(const struct hub_search *s)
{
    struct buf b = {0};
    pull_url_begin(&s->hub, &b);
    buf_puts(&b, "/api/models?search=");
    for (const char *c = s->text; *c; c++)
        buf_printf(&b, isalnum((unsigned char)*c) ? "%c" : "%%%02X", (unsigned char)*c);
    buf_printf(&b, "&sort=downloads&direction=-1&limit=%zu", s->limit * ASKED_FOR);
    buf_puts(&b, "&expand=downloads&expand=likes&expand=tags&expand=gated&expand=disabled");
    if (b.failed)
        buf_fini(&b);
    return b.data;
}

static bool ask_hub(struct hub_search *s, struct err *e)
{
    const struct json_limits limits = {.max_bytes = PULL_LIST_MAX, .allow_duplicates = true};
    struct buf body = {0};
    char *url = search_url(s);
    bool ok = pull_http_get(&s->hub, url, &body, e);
    cJSON *list = ok ? json_parse(body.data ? body.data : "", body.len, &limits, e) : NULL;
    const cJSON *entry;
    if (ok && !list)
        ok = err_prefix(e, "the hub's answer to the search");
    else if (ok && !cJSON_IsArray(list))
        ok = err_set(e, ERR_FORMAT, "the hub's answer to the search is no list of models");
    cJSON_ArrayForEach (entry, list)
        if (ok)
            take(s, entry);
    cJSON_Delete(list);
    free(url);
    buf_fini(&body);
    return ok;
}

/* Those that take no more than twice this machine's RAM; the largest of them, smallest first. */
static bool read_known(struct hub_search *s, struct err *e)
{
    struct machine m;
    const cJSON *models = NULL, *entry;
    cJSON *v = machine_read("", &m, e) ? json_parse_file(s->known, KNOWN_MAX, e) : NULL;
    bool ok = v && json_get_array(v, "models", &models, e) &&
              (models || err_set(e, ERR_FORMAT, "it has no models"));
    size_t fit = 0, skip;
    cJSON_ArrayForEach (entry, models)
        fit +=
            cJSON_GetNumberValue(cJSON_GetObjectItem(entry, "memory_gb")) * 0.5e9 < (double)m.total;
    skip = fit > s->limit ? fit - s->limit : 0;
    cJSON_ArrayForEach (entry, models) {
        const char *repo = NULL, *quant = "", *about = "";
        struct hub_found *f = &s->found[s->n];
        if (s->n >= s->limit || fit-- == 0)
            break;
        if (skip && skip--)
            continue;
        ok = json_get_string(entry, "repo", &repo, e) &&
             json_get_string(entry, "quant", &quant, e) &&
             json_get_string(entry, "about", &about, e) &&
             (repo || err_set(e, ERR_FORMAT, "an entry without repo"));
        if (!ok)
            break;
        *f = (struct hub_found){.downloads = -1,
                                .likes = -1,
                                .memory_gb =
                                    cJSON_GetNumberValue(cJSON_GetObjectItem(entry, "memory_gb"))};
        snprintf(f->repo, sizeof f->repo, "%s", repo);
        snprintf(f->quant, sizeof f->quant, "%s", quant);
        snprintf(f->about, sizeof f->about, "%s", about);
        s->n++;
    }
    cJSON_Delete(v);
    return ok || err_prefix(e, "%s", s->known);
}

bool hub_search_ask(struct hub_search *s, struct err *e)
{
    s->n = 0;
    return s->text[0] ? ask_hub(s, e) : read_known(s, e);
}

/* ---- what each would be here ---- */

static void keep_plan(struct hub_plan *h, const struct pull *p, const struct memory_load *l)
{
    struct hub_found *f = h->say_context;
    buf_printf(&f->plan, "\"backend\":\"%s\",", l->plan.backend);
    memory_plan_json(&l->plan, &l->estimate, &f->plan);
    f->tokens_per_s = l->estimate.tokens_per_s;
}

bool hub_search_fit(struct hub_search *s, struct hub_found *f, struct err *e)
{
    char out[PULL_PATH_SIZE - 16];
    struct err why = {0};
    bool more;
    struct hub_plan h = s->like;
    struct pull p = s->hub;
    h.say = keep_plan;
    h.say_context = f;
    h.only = true;
    if (snprintf(out, sizeof out, "%s/.search-%d", s->folder, (int)getpid()) >= (int)sizeof out)
        return err_field(e, ERR_LIMIT, "folder", "is too long");
    p.repo = f->repo;
    p.revision = "main";
    p.out = out;
    p.quant = f->quant;
    p.lock = -1;
    bool ok = pull_http_list(&p, &why) && pull_choose(&p, f->quant, &why) &&
              pull_http_ask(&p, &why) && hub_plan_show(&h, &p, &more, &why);
    if (p.chosen)
        snprintf(f->quant, sizeof f->quant, "%s", p.chosen);
    snprintf(f->commit, sizeof f->commit, "%s", p.commit);
    f->planned = true;
    f->verdict = h.verdict;
    f->bytes = h.bytes;
    f->fetched = h.fetched;
    if (!ok)
        snprintf(f->why, sizeof f->why, "%s", why.text);
    pull_disk_close(&p);
    if (why.code == ERR_CANCELLED || why.code == ERR_NOMEM || f->plan.failed) {
        *e = why.code ? why : (struct err){.code = ERR_NOMEM};
        return false;
    }
    return true;
}

void hub_search_name(const struct hub_found *f, bool with_commit, char *out, size_t size)
{
    snprintf(out, size, "hf.co/%s%s%s%s%s", f->repo, with_commit && f->commit[0] ? "@" : "",
             with_commit ? f->commit : "", f->quant[0] ? ":" : "", f->quant);
}

static void put_number(struct buf *b, const char *name, bool known, double v)
{
    if (known)
        buf_printf(b, ",\"%s\":%.*f", name, v < 1e6 && v != (double)(int64_t)v ? 2 : 0, v);
    else
        buf_printf(b, ",\"%s\":null", name);
}

/* Without a text: null. */
static void put_text(struct buf *b, const char *name, const char *text)
{
    if (text && text[0])
        buf_json_member(b, name, text);
    else
        buf_printf(b, ",\"%s\":null", name);
}

static void put_fit(const struct hub_found *f, struct buf *b)
{
    const bool known = f->tokens_per_s > 0;
    buf_printf(b, "{\"verdict\":\"%s\",\"bytes\":%" PRId64 ",\"fetched_bytes\":%" PRId64,
               hub_verdict_name(f->verdict), f->bytes, f->fetched);
    put_number(b, "tokens_per_s", known, f->tokens_per_s);
    put_number(b, "tokens_per_s_low", known, f->tokens_per_s * (1 - MEMORY_ESTIMATE_OFF));
    put_number(b, "tokens_per_s_high", known, f->tokens_per_s * (1 + MEMORY_ESTIMATE_OFF));
    put_text(b, "reason", f->why);
    buf_printf(b, ",\"plan\":%s%.*s%s}", f->plan.len ? "{" : "null", (int)f->plan.len,
               f->plan.data ? f->plan.data : "", f->plan.len ? "}" : "");
}

static void put_found(const struct hub_found *f, struct buf *b)
{
    char name[2 * PULL_REPO_SIZE];
    buf_puts(b, "{\"repo\":");
    buf_json_string(b, f->repo, strlen(f->repo));
    hub_search_name(f, false, name, sizeof name);
    buf_json_member(b, "name", name);
    hub_search_name(f, true, name, sizeof name);
    buf_json_member(b, "pull", name);
    if (f->about[0])
        buf_json_member(b, "about", f->about);
    put_number(b, "downloads", f->downloads >= 0, (double)f->downloads);
    put_number(b, "likes", f->likes >= 0, (double)f->likes);
    put_number(b, "memory_gb", f->memory_gb > 0, f->memory_gb);
    buf_printf(b, ",\"gated\":%s,\"fit\":", f->gated ? "true" : "false");
    if (f->planned)
        put_fit(f, b);
    else
        buf_puts(b, "null");
    buf_putc(b, '}');
}

void hub_search_begin_json(struct buf *b, const char *query, const char *phase, const char *error)
{
    buf_puts(b, "{\"query\":");
    buf_json_string(b, query, strlen(query));
    buf_json_member(b, "phase", phase);
    put_text(b, "error", error);
    buf_puts(b, ",\"items\":");
}

void hub_search_json(const struct hub_search *s, struct buf *b)
{
    buf_putc(b, '[');
    for (size_t i = 0; i < s->n; i++) {
        buf_puts(b, i ? "," : "");
        put_found(&s->found[i], b);
    }
    buf_putc(b, ']');
}

void hub_search_close(struct hub_search *s)
{
    for (size_t i = 0; i < s->n; i++)
        buf_fini(&s->found[i].plan);
    s->n = 0;
}
