/* sluice search: models of a hub, and beside each whether it would run on this machine and how
 * fast, before anything of its weights is loaded. */
#include <curl/curl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/size_text.h"
#include "engine/memory/memory_options.h"
#include "engine/wire/status.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/pull/hub_search.h"

extern const struct command cmd_search;

struct settings {
    const char *endpoint, *known, *folder, *proxy, *progress, *status, *cache_dir, *backend;
    int64_t limit, timeout_s, slots, ctx, kv_memory, prefill_chunk, threads;
    struct memory_options memory;
    const char *speculate;
    bool json, exact;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    {"limit", OPTION_INT, AT(limit), "8", 1, HUB_SEARCH_MAX, NULL, "N", "models at most"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL, "print one JSON object"},
    {"endpoint", OPTION_STRING, AT(endpoint), "https://huggingface.co", 0, 0, NULL, "URL",
     "the hub"},
    {"known", OPTION_STRING, AT(known), SLUICE_DATADIR "/known-models.json", 0, 0, NULL, "FILE",
     "what is shown without a word to search for"},
    {"folder", OPTION_STRING, AT(folder), ".", 0, 0, NULL, "DIR",
     "on the disk that models come to, which is measured for those that stream"},
    {"timeout", OPTION_INT, AT(timeout_s), "15", 1, 3600, NULL, "S",
     "without a byte before a request is made again"},
    {"proxy", OPTION_STRING, AT(proxy), NULL, 0, 0, NULL, "URL",
     "HTTP proxy; the environment's is not used"},
    {"progress", OPTION_STRING, AT(progress), NULL, 0, 0, NULL, "FILE",
     "keep in this file what is known so far, as JSON"},
    {"status", OPTION_STRING, AT(status), NULL, 0, 0, NULL, "FILE",
     "a running engine's status page: its memory counts as free"},
    {"cache-dir", OPTION_STRING, AT(cache_dir), NULL, 0, 0, NULL, "DIR",
     "where the disk's measured rate is kept"},
    PLAN_OPTION_ROWS(struct settings),
    {"speculate", OPTION_CHOICE, AT(speculate), "auto", 0, 0, "auto|off|ngram|draft", NULL,
     "as for `sluice up`: drafts take memory"},
    MEMORY_OPTION_ROWS(struct settings, memory),
};

/* For the page, which looks at it again and again. */
static bool tell(const struct hub_search *s, const char *path, const char *phase,
                 const struct err *error, struct err *e)
{
    struct buf b = {0};
    if (!path)
        return true;
    hub_search_begin_json(&b, s->text, phase, error ? error->text : NULL);
    hub_search_json(s, &b);
    buf_puts(&b, "}\n");
    bool ok = b.failed ? err_set(e, ERR_NOMEM, "no memory for the list")
                       : file_write_atomic(path, b.data, b.len, 0640, e);
    buf_fini(&b);
    return ok;
}

static void print_one(const struct hub_found *f)
{
    static const char *const words[HUB_VERDICT__N] = {"?", "not for Sluice", "too large", "streams",
                                                      "fits"};
    char name[2 * PULL_REPO_SIZE], size[SIZE_TEXT], rate[64] = "";
    const int digits = f->tokens_per_s < 10 ? 2 : f->tokens_per_s < 100 ? 1 : 0;
    hub_search_name(f, false, name, sizeof name);
    if (f->tokens_per_s > 0)
        snprintf(rate, sizeof rate, "%.*f to %.*f tokens/s", digits,
                 f->tokens_per_s * (1 - MEMORY_ESTIMATE_OFF), digits,
                 f->tokens_per_s * (1 + MEMORY_ESTIMATE_OFF));
    printf("%-15s %10s  %-24s %s%s%s\n", words[f->verdict],
           f->bytes ? size_text((double)f->bytes, size) : "", rate, name, f->about[0] ? "  " : "",
           f->about);
    if (f->why[0])
        printf("%-15s %s%s\n", "", f->gated ? "its terms have to be accepted on the hub; " : "",
               f->why);
    fflush(stdout);
}

static void print_json(const struct hub_search *s)
{
    struct buf b = {0};
    buf_puts(&b, "{\"query\":");
    buf_json_string(&b, s->text, strlen(s->text));
    buf_puts(&b, ",\"items\":");
    hub_search_json(s, &b);
    if (!b.failed)
        printf("%s}\n", b.data);
    buf_fini(&b);
}

static bool search(struct hub_search *s, const struct settings *o, struct err *e)
{
    bool ok = tell(s, o->progress, "searching", NULL, e) && hub_search_ask(s, e) &&
              tell(s, o->progress, "planning", NULL, e);
    for (size_t i = 0; ok && i < s->n; i++) {
        ok = hub_search_fit(s, &s->found[i], e) &&
             tell(s, o->progress, i + 1 < s->n ? "planning" : "done", NULL, e);
        if (ok && !o->json && !o->progress)
            print_one(&s->found[i]);
    }
    if (ok && !s->n)
        ok = tell(s, o->progress, "done", NULL, e);
    if (!ok)
        tell(s, o->progress, "failed", e, &(struct err){0});
    return ok;
}

/* What the engine that runs now gives back: what no file backs, and pages of files that are
 * locked. */
static void take_status(struct hub_plan *like, const char *path)
{
    static struct status_page page; /* some 25 KiB */
    if (!path || !status_read(path, &page, NULL) || page.state != ENGINE_READY)
        return;
    /* What a streaming model locks is a copy, which is anonymous already, as interleaved weights
     * are. */
    const uint64_t of_files =
        page.locked_weight_bytes < page.mapped_bytes ? page.locked_weight_bytes : page.mapped_bytes;
    like->ram_returned =
        page.anonymous_bytes + (strcmp(page.strategy, "ssd_streaming") ? of_files : 0);
    like->gpu_returned = page.device_bytes + page.draft_device_bytes;
}

static bool run_search(const struct settings *o, const char *text, struct hub_search *s,
                       struct err *e)
{
    *s = (struct hub_search){.hub = {.lock = -1,
                                     .endpoint = o->endpoint,
                                     .proxy = o->proxy,
                                     .repo = "the search",
                                     .jobs = 8,
                                     .segment_bytes = 1 << 20,
                                     .timeout_s = o->timeout_s},
                             .text = text,
                             .known = o->known,
                             .folder = o->folder,
                             .limit = (size_t)o->limit,
                             .like = {.backend = o->backend,
                                      .slots = o->slots,
                                      .ctx = o->ctx,
                                      .prefill_chunk = o->prefill_chunk,
                                      .kv_memory = o->kv_memory,
                                      .threads = o->threads,
                                      .exact = o->exact,
                                      .speculates = strcmp(o->speculate, "off") != 0,
                                      .memory = o->memory,
                                      .cache_dir = o->cache_dir}};
    if (!pull_check_endpoint(o->endpoint, e))
        return false;
    if (!file_is_dir(o->folder) && !file_mkdirs(o->folder, 0750, e))
        return false;
    if (strlen(text) > 200)
        return err_set(e, ERR_INPUT, "the text to search for is longer than 200 bytes");
    take_status(&s->like, o->status);
    pull_catch_signals(&s->hub);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(e, ERR_INTERNAL, "curl can't start");
    bool ok = search(s, o, e);
    if (ok && o->json)
        print_json(s);
    else if (ok && !o->progress)
        puts(s->n ? "\n`sluice up --model NAME` loads one and runs it."
                  : "The hub knows no model of this name that could be read; try a shorter word.");
    curl_global_cleanup();
    return ok;
}

static int run(int argc, char **argv)
{
    static struct hub_search s;
    struct settings o;
    struct err e = {0};
    char **rest = calloc((size_t)argc + 1, sizeof *rest);
    int status = rest ? cli_options(&cmd_search, argc, argv, &o, rest) : 1;
    if (status < 0 && rest[0] && rest[1])
        status = cli_misused(&cmd_search, "one word, or several in quotes");
    if (status < 0)
        status = run_search(&o, rest[0] ? rest[0] : "", &s, &e) ? 0 : command_fail("search", &e);
    hub_search_close(&s);
    free(rest);
    return status;
}

const struct command cmd_search = {
    .name = "search",
    .usage = "[TEXT] [--limit N] [--json]",
    .help = "find models on a hub, and say which run here and how fast",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
