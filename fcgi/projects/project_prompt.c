/* project.h: the beginning of a prompt, and the passages that match its question. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/http/request.h"
#include "fcgi/projects/project.h"
#include "fcgi/projects/project_near.h"
#include "fcgi/status/engine_status.h"
#include "sql/files/store_attachments.h"
#include "sql/models/store_models.h"

#define UNKNOWN_CONTEXT 16384     /* tokens, where another server answers and does not say */
#define UNKNOWN_WHOLE_TOKENS 2048 /* of files: that context may be a small one */
#define BYTES_PER_TOKEN 3         /* where no tokenizer counted */

int64_t project_context(struct request *r)
{
    struct status_page page;
    if (r->model)
        return r->model->context > 0 ? r->model->context : UNKNOWN_CONTEXT;
    return engine_status_read(r, &page) && page.n_ctx > 0 ? page.n_ctx : UNKNOWN_CONTEXT;
}

static int64_t file_tokens(const struct store_project_file *f)
{
    return f->tokens > 0 ? f->tokens : f->text_bytes / BYTES_PER_TOKEN + 1;
}

/* For ranking_choose: what a byte of this file costs. */
static double tokens_per_byte(void *context, int64_t file)
{
    const struct store_project_files *files = context;
    for (int i = 0; i < files->n; i++)
        if (files->at[i].id == file && files->at[i].text_bytes)
            return (double)file_tokens(&files->at[i]) / (double)files->at[i].text_bytes;
    return 1.0 / BYTES_PER_TOKEN;
}

static bool fit_whole(const struct request *r, const struct project_given *g)
{
    const bool unknown = r->model && r->model->context <= 0;
    const int64_t most = unknown ? UNKNOWN_WHOLE_TOKENS : g->n_ctx / 2;
    int64_t tokens = 0, bytes = 0;
    for (int i = 0; i < g->files.n; i++) {
        tokens += file_tokens(&g->files.at[i]);
        bytes += g->files.at[i].text_bytes;
    }
    return tokens <= most && bytes <= (int64_t)ATTACHMENT_PROMPT_BYTES;
}

static const struct store_project_file *file_of(const struct project_given *g, int64_t id)
{
    for (int i = 0; i < g->files.n; i++)
        if (g->files.at[i].id == id)
            return &g->files.at[i];
    return NULL;
}

static cJSON *add_source(cJSON *list, int n, const struct store_project_file *f)
{
    cJSON *o = cJSON_CreateObject();
    if (o && cJSON_AddItemToArray(list, o) && cJSON_AddNumberToObject(o, "n", n) &&
        cJSON_AddStringToObject(o, "name", f->name) &&
        cJSON_AddStringToObject(o, "sha256", f->sha256))
        return o;
    return NULL;
}

struct whole { /* a file on its way into the preamble */
    struct buf *out;
    int n;
};

static bool put_whole(void *context, const char *name, const char *text)
{
    struct whole *w = context;
    struct buf head = {0};
    buf_printf(&head, "[%d] %s", w->n, name);
    w->out->failed |= head.failed || !attachment_block(w->out, head.data, text ? text : "");
    buf_fini(&head);
    return true;
}

static bool put_files(struct request *r, struct project_given *g, struct err *e)
{
    struct buf *out = &g->preamble;
    buf_puts(out, "The project's files follow. Where you use one of them, cite its number in "
                  "brackets, such as [1].\n\n");
    for (int i = 0; i < g->files.n; i++) {
        struct whole w = {.out = out, .n = i + 1};
        if (!store_attachment_text(
                r->store,
                &(struct store_ref){.user_id = g->project.owner_id, .id = g->files.at[i].id},
                put_whole, &w, e))
            return false;
        if (!add_source(cJSON_GetObjectItemCaseSensitive(g->sources, "files"), w.n,
                        &g->files.at[i]))
            return err_set(e, ERR_NOMEM, "no memory for the project's files");
    }
    return true;
}

static void put_names(struct project_given *g)
{
    struct buf *out = &g->preamble;
    buf_puts(out, "The project has these files:\n");
    for (int i = 0; i < g->files.n; i++)
        buf_printf(out, "- %s\n", g->files.at[i].name);
    buf_puts(out, "They are too long to be given whole. Passages that match a question stand "
                  "before it, each with a number. Where you use one, cite its number in brackets, "
                  "such as [1].\n\n");
}

static bool begin_sources(struct project_given *g)
{
    cJSON *o = g->sources = cJSON_CreateObject();
    return o && cJSON_AddStringToObject(o, "project", g->project.name) &&
           cJSON_AddStringToObject(o, "instructions", g->project.instructions) &&
           cJSON_AddArrayToObject(o, "files") && cJSON_AddArrayToObject(o, "passages") &&
           cJSON_AddFalseToObject(o, "indexing");
}

static bool put_preamble(struct request *r, struct project_given *g, bool search, struct err *e)
{
    struct buf *out = &g->preamble;
    const char *instructions = g->project.instructions;
    if (!*instructions && !g->files.n)
        return true;
    buf_printf(out, "This chat belongs to the project \"%s\".\n\n", g->project.name);
    if (*instructions)
        buf_printf(out, "%s\n\n", instructions);
    g->whole = g->files.n && !search && fit_whole(r, g);
    if (g->whole ? !put_files(r, g, e) : false)
        return false;
    if (g->files.n && !g->whole)
        put_names(g);
    while (out->len && out->data[out->len - 1] == '\n')
        out->data[--out->len] = '\0';
    return !out->failed || err_set(e, ERR_NOMEM, "no memory for the project's files");
}

static bool find_project(struct request *r, const struct project_place *at,
                         struct store_project *out, struct err *e)
{
    const struct store_ref chat = {.user_id = r->who.user_id, .id = at->conversation_id};
    const struct store_ref project = {.user_id = r->who.user_id, .id = at->project_id};
    if (at->conversation_id)
        return store_project_of_chat(r->store, r->arena, &chat, out, e);
    return !at->project_id || store_project_get(r->store, r->arena, &project, out, e);
}

bool project_give(struct request *r, const struct project_place *at, struct project_given *out,
                  struct err *e)
{
    *out = (struct project_given){0};
    if (!find_project(r, at, &out->project, e))
        return false;
    if (!out->project.id)
        return true;
    const struct store_ref project = {.user_id = r->who.user_id, .id = out->project.id};
    if (!store_project_files(r->store, r->arena, &project, &out->files, e))
        return false;
    out->n_ctx = project_context(r);
    return (begin_sources(out) || err_set(e, ERR_NOMEM, "no memory for the project")) &&
           put_preamble(r, out, at->search, e);
}

struct passage { /* on its way out of its file's text */
    int64_t start, bytes;
    cJSON *to;
    bool ok;
};

static bool take_passage(void *context, const char *name, const char *text)
{
    struct passage *p = context;
    const size_t len = text ? strlen(text) : 0;
    (void)name;
    if ((size_t)(p->start + p->bytes) > len)
        return false;
    char *part = strndup(text + p->start, (size_t)p->bytes);
    p->ok = part && cJSON_AddNumberToObject(p->to, "start", (double)p->start) &&
            cJSON_AddNumberToObject(p->to, "end", (double)(p->start + p->bytes)) &&
            cJSON_AddStringToObject(p->to, "text", part);
    free(part);
    return false;
}

static bool add_passage(struct request *r, struct project_given *g, const struct ranking_passage *x,
                        int n, struct err *e)
{
    const struct store_project_file *f = file_of(g, x->file);
    if (!f)
        return true; /* it came a moment ago, after the list was read */
    struct passage p = {.start = x->start, .bytes = x->bytes};
    p.to = add_source(cJSON_GetObjectItemCaseSensitive(g->sources, "passages"), n, f);
    if (p.to && !store_attachment_text(r->store, &(struct store_ref){g->project.owner_id, x->file},
                                       take_passage, &p, e))
        return false;
    return p.ok || err_set(e, ERR_NOMEM, "no memory for a passage");
}

bool project_search(struct request *r, struct project_given *g, const char *question, int first,
                    struct err *e)
{
    const struct store_ref project = {r->who.user_id, g->project.id};
    struct store_passages found;
    int64_t n_all = 0;
    bool indexing = false, by_meaning = false, ok = true;
    for (int i = 0; i < g->files.n; i++) {
        n_all += g->files.at[i].n_chunks;
        indexing |= g->files.at[i].indexing;
    }
    if (!store_project_find(r->store, &project, question, &found, e))
        return false;
    ranking_score(found.at, found.n, found.n_terms, n_all);
    if (project_meaning(r) && !project_near(r, &project, question, &found, &by_meaning, e)) {
        free(found.at);
        return false;
    }
    ok = cJSON_AddStringToObject(g->sources, "search", by_meaning ? "meaning" : "words") ||
         err_set(e, ERR_NOMEM, "no memory for the project's files");
    const struct ranking_budget budget = {
        .tokens = g->n_ctx / 4 < PROJECT_PASSAGE_TOKENS ? g->n_ctx / 4 : PROJECT_PASSAGE_TOKENS,
        .tokens_per_byte = tokens_per_byte,
        .context = &g->files,
        .most = PROJECT_PASSAGES};
    const int n = ranking_choose(found.at, found.n, &budget);
    for (int i = 0; i < n && ok; i++)
        ok = add_passage(r, g, &found.at[i], first + i, e);
    if (indexing)
        cJSON_ReplaceItemInObjectCaseSensitive(g->sources, "indexing", cJSON_CreateTrue());
    free(found.at);
    return ok;
}

void project_given_fini(struct project_given *g)
{
    buf_fini(&g->preamble);
    cJSON_Delete(g->sources);
    g->sources = NULL;
}
