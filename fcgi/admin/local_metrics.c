/* local_metrics.h: read from the status page of each engine. */
#include "fcgi/admin/local_metrics.h"

#include "engine/engine.h"
#include "engine/wire/status.h"
#include "fcgi/process/worker.h"

/* Names of models have no control characters (sql/models/store_models.c). */
static void put_name(struct buf *b, const char *figure, const char *model)
{
    buf_printf(b, "sluice_%s{model=\"", figure);
    for (const char *c = model; *c; c++) {
        if (*c == '\\' || *c == '"')
            buf_putc(b, '\\');
        buf_putc(b, *c);
    }
    buf_puts(b, "\"}");
}

/* Who may not use a model does not learn of it where everyone reads the figures. */
static void put_label(struct buf *b, const char *figure, const struct worker *m, bool open)
{
    if (open)
        buf_printf(b, "sluice_%s{model=\"%lld\"}", figure, (long long)m->local_id);
    else
        put_name(b, figure, m->model_id);
}

void local_metrics_put(struct buf *b, const struct worker *w, bool open)
{
    static const struct {
        const char *name, *type, *help;
    } rows[] = {
        {"local_engine_up", "gauge", "1 while the model is loaded"},
        {"local_jobs_running", "gauge", "answers that it generates"},
        {"local_jobs_waiting", "gauge", "answers that wait for it"},
        {"local_jobs_total", "counter", "answers that ended since it was loaded"},
        {"local_prompt_tokens_total", "counter", "tokens of prompts since it was loaded"},
        {"local_cached_tokens_total", "counter", "of them, found in its prompt cache"},
        {"local_generation_tokens_total", "counter", "tokens of answers since it was loaded"},
        {"local_memory_bytes", "gauge", "bytes that it takes"},
        {"local_prompt_cache_bytes", "gauge",
         "bytes of its prompts on the disk, while it is loaded"},
        {"local_prompt_cache_loaded_tokens_total", "counter",
         "tokens that came from there since it was loaded"},
    };
    struct status_page page;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        buf_printf(b, "# HELP sluice_%s %s\n# TYPE sluice_%s %s\n", rows[k].name, rows[k].help,
                   rows[k].name, rows[k].type);
        for (int i = 0; i < w->n_locals; i++) {
            const bool up =
                status_read(w->locals[i].status_path, &page, NULL) && page.state == ENGINE_READY;
            if (!up)
                page = (struct status_page){0};
            const double values[] = {
                up,
                page.jobs_running,
                page.jobs_waiting,
                (double)(status_jobs_succeeded(page.jobs_done) + page.jobs_done[OUTCOME_FAILED]),
                (double)page.prompt_tokens,
                (double)page.cached_tokens,
                (double)page.completion_tokens,
                (double)page.resident_bytes,
                (double)page.cache_disk_bytes,
                (double)page.cache_loaded * ENGINE_STORED_TOKENS};
            put_label(b, rows[k].name, &w->locals[i], open);
            buf_printf(b, " %.17g\n", values[k]);
        }
    }
}
