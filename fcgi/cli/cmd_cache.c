/* sluice cache: the prompt cache on disk: what is kept, whether it is whole, and removing it. */
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/option.h"
#include "engine/base/size_text.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "fcgi/cli/prompt_records.h"
#include "fcgi/process/state.h"
#include "sql/core/store.h"
#include "sql/prompts/store_prompt_blocks.h"

struct settings {
    const char *state, *folder;
    bool json, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"prompt-cache-dir", OPTION_STRING, offsetof(struct settings, folder), NULL, 0, 0, NULL, "DIR",
     "the engine's folder of segment files; default: cache/prompt-cache in the state folder"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "stats, verify: as JSON"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};

extern const struct command cmd_cache;

static bool find_folder(const struct settings *o, char out[PATH_MAX], struct err *e)
{
    char state[PATH_MAX], cache[PATH_MAX];
    if (o->folder)
        return snprintf(out, PATH_MAX, "%s", o->folder) < PATH_MAX ||
               err_field(e, ERR_LIMIT, "prompt-cache-dir", "the path is too long");
    return cli_store_folder(o->state, state, e) &&
           file_join(cache, sizeof cache, state, STATE_CACHE, e) &&
           file_join(out, PATH_MAX, cache, "prompt-cache", e);
}

/* ---- users ---- */

struct listing {
    struct store *s;
    struct arena *arena;
    bool json;
    int n;
};

static bool print_user(void *context, int64_t user_id, const struct store_kept *kept)
{
    struct listing *l = context;
    struct store_user u;
    char size[SIZE_TEXT];
    const long long tokens = (long long)kept->blocks * STORE_BLOCK_TOKENS;
    const char *name = store_user_by_id(l->s, l->arena, user_id, &u, NULL) ? u.name : "(removed)";
    if (l->json)
        printf("%s{\"user_id\":%lld,\"tokens\":%lld,\"bytes\":%lld}", l->n++ ? "," : "",
               (long long)user_id, tokens, (long long)kept->bytes);
    else
        printf("%-24s %12lld tokens %12s\n", name, tokens, size_text((double)kept->bytes, size));
    return true;
}

/* ---- models: the first, then those beside it that have rows */

struct part {
    struct store_prompt_model model; /* id 0: the first model */
    char folder[PATH_MAX];
};

/* Begins with *p zeroed and `more` false. False: there is none any more, or *e. */
static bool next_part(struct store *s, const char *folder, struct part *p, bool more, struct err *e)
{
    struct err none = {0};
    if (more && !store_prompt_model_next(s, p->model.id, &p->model, &none)) {
        if (none.code != ERR_NOTFOUND)
            *e = none;
        return false;
    }
    const int n = p->model.id
                      ? snprintf(p->folder, PATH_MAX, "%s-%lld", folder, (long long)p->model.id)
                      : snprintf(p->folder, PATH_MAX, "%s", folder);
    return n < PATH_MAX || err_set(e, ERR_LIMIT, "the path of a folder is too long");
}

static void print_part(const struct settings *o, const struct part *p,
                       const struct prompt_records *files)
{
    char kept[SIZE_TEXT], taken[SIZE_TEXT];
    const struct store_kept *k = &p->model.kept;
    const long long tokens = (long long)k->blocks * STORE_BLOCK_TOKENS;
    if (o->json)
        printf("%s{\"model_id\":%lld,\"tokens\":%lld,\"bytes\":%lld,\"files\":%lld,"
               "\"file_bytes\":%lld}",
               p->model.id ? "," : "", (long long)p->model.id, tokens, (long long)k->bytes,
               (long long)files->files, (long long)files->file_bytes);
    else
        printf("%-14s %lld tokens, %s; %lld files, %s on the disk\n",
               !p->model.id     ? "first model"
               : *p->model.name ? p->model.name
                                : "(removed)",
               tokens, size_text((double)k->bytes, kept), (long long)files->files,
               size_text((double)files->file_bytes, taken));
}

/* What the first model keeps is what the others do not. */
static bool subtract_others(struct store *s, const char *folder, struct part *first, struct err *e)
{
    static struct part other;
    other = (struct part){0};
    while (next_part(s, folder, &other, true, e)) {
        first->model.kept.blocks -= other.model.kept.blocks;
        first->model.kept.bytes -= other.model.kept.bytes;
    }
    return !e->code;
}

static bool stats_of_models(struct store *s, const struct settings *o, const char *folder,
                            const struct store_prompt_facts *f, struct err *e)
{
    static struct part p; /* two paths are much for a stack */
    p = (struct part){.model.kept = {f->blocks, f->bytes}};
    bool more = false;
    if (!subtract_others(s, folder, &p, e))
        return false;
    for (; next_part(s, folder, &p, more, e); more = true) {
        struct prompt_records files = {0};
        if (!prompt_records_files(p.folder, &files, e))
            return false;
        print_part(o, &p, &files);
    }
    return !e->code;
}

static bool count_files(struct store *s, const char *folder, struct prompt_records *files,
                        struct err *e)
{
    static struct part p;
    p = (struct part){0};
    bool more = false;
    for (; next_part(s, folder, &p, more, e); more = true)
        if (!prompt_records_files(p.folder, files, e))
            return false;
    return !e->code;
}

/* ---- stats ---- */

static bool stats(struct store *s, struct arena *a, const struct settings *o, const char *folder,
                  struct err *e)
{
    struct store_prompt_facts f;
    struct prompt_records files = {0};
    struct listing l = {.s = s, .arena = a, .json = o->json};
    char kept[SIZE_TEXT], taken[SIZE_TEXT];
    if (!store_prompt_facts(s, &f, e) || !count_files(s, folder, &files, e))
        return false;
    const long long tokens = (long long)f.blocks * STORE_BLOCK_TOKENS;
    if (o->json)
        printf("{\"tokens\":%lld,\"blocks\":%lld,\"bytes\":%lld,\"removals\":%lld,\"files\":%lld,"
               "\"file_bytes\":%lld,\"models\":[",
               tokens, (long long)f.blocks, (long long)f.bytes, (long long)f.removals,
               (long long)files.files, (long long)files.file_bytes);
    else
        printf("kept           %lld tokens in %lld blocks, %s\nto be removed  %lld blocks\n"
               "files          %lld in %s, %s on the disk\n",
               tokens, (long long)f.blocks, size_text((double)f.bytes, kept), (long long)f.removals,
               (long long)files.files, folder, size_text((double)files.file_bytes, taken));
    bool ok = stats_of_models(s, o, folder, &f, e);
    if (o->json)
        printf("],\"users\":[");
    ok = ok && store_prompt_totals(s, print_user, &l, e);
    if (o->json)
        puts("]}");
    return ok;
}

/* ---- verify ---- */

struct checking {
    const struct settings *o;
    const struct part *part;
};

static void print_finding(void *context, uint32_t segment, uint64_t offset, bool damaged)
{
    const struct checking *c = context;
    if (c->o->json)
        return;
    printf("%s  %08" PRIx32 ".kv at %" PRIu64, damaged ? "damaged" : "missing", segment, offset);
    if (c->part->model.id)
        printf(" of %s", c->part->folder);
    putchar('\n');
}

static bool verify_all(struct store *s, const struct settings *o, const char *folder,
                       struct prompt_records *r, struct err *e)
{
    static struct part p;
    p = (struct part){0};
    bool more = false;
    for (; next_part(s, folder, &p, more, e); more = true) {
        struct checking c = {o, &p};
        if (!prompt_records_verify(s, &(struct prompt_folder){p.folder, p.model.id}, r,
                                   print_finding, &c, e))
            return false;
    }
    return !e->code;
}

static bool verify(struct store *s, const struct settings *o, const char *folder, struct err *e)
{
    struct prompt_records r = {0};
    char unlisted[SIZE_TEXT];
    if (!verify_all(s, o, folder, &r, e))
        return false;
    if (o->json)
        printf("{\"rows\":%lld,\"whole\":%lld,\"missing\":%lld,\"damaged\":%lld,\"unlisted\":%lld,"
               "\"unlisted_bytes\":%lld}\n",
               (long long)r.rows, (long long)r.whole, (long long)r.missing, (long long)r.damaged,
               (long long)r.unlisted, (long long)r.unlisted_bytes);
    else
        printf("%lld of %lld blocks are whole; %lld are missing, %lld damaged; %lld records (%s) "
               "are in no row\n",
               (long long)r.whole, (long long)r.rows, (long long)r.missing, (long long)r.damaged,
               (long long)r.unlisted, size_text((double)r.unlisted_bytes, unlisted));
    if (r.missing + r.damaged == 0)
        return true;
    return err_set(e, ERR_FORMAT,
                   "%lld blocks can't be used; the engine computes them again, and their rows go "
                   "when that is noticed",
                   (long long)(r.missing + r.damaged));
}

/* ---- clear ---- */

static bool clear(struct store *s, struct err *e)
{
    int64_t removed;
    if (!store_prompts_forget(s, &(struct store_forgetting){.what = FORGET_ALL}, &removed, e))
        return false;
    cli_store_audit(s, "prompt_cache.clear", "blocks", removed);
    printf("%lld blocks are forgotten; the engine removes their bytes within seconds, or after its "
           "next start\n",
           (long long)removed);
    return true;
}

static bool run_verb(void *settings, char **rest, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    const char *verb = rest[0];
    char folder[PATH_MAX];
    if (!verb || rest[1])
        return cli_store_usage(&cmd_cache, e);
    const bool clears = !strcmp(verb, "clear");
    if (!clears && strcmp(verb, "stats") != 0 && strcmp(verb, "verify") != 0)
        return err_set(e, ERR_INPUT, "no verb '%.40s'; usage: sluice cache %s", verb,
                       cmd_cache.usage);
    if (clears && (o->json || o->folder))
        return err_field(e, ERR_INPUT, o->json ? "json" : "prompt-cache-dir",
                         "clear does not take it");
    struct store *s = find_folder(o, folder, e) ? cli_store_open(o->state, false, e) : NULL;
    bool ok = s && (clears                    ? clear(s, e)
                    : !strcmp(verb, "verify") ? verify(s, o, folder, e)
                                              : stats(s, a, o, folder, e));
    store_close(&s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_cache, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = run_verb});
}

const struct command cmd_cache = {
    .name = "cache",
    .usage = "stats | verify | clear  [--state DIR] [--prompt-cache-dir DIR] [--json]",
    .help = "show, check and empty the prompt cache on disk",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
