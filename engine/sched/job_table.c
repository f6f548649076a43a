/* Finds jobs by id or key, and forgets ended ones by age and by the memory of their events. */
#include "engine/sched/job_table.h"

#include <stdlib.h>
#include <string.h>

void job_table_fini(struct job_table *t)
{
    for (int32_t i = 0; i < t->n; i++)
        job_unref(&t->entries[i].job);
    free(t->entries);
    *t = (struct job_table){0};
}

uint64_t job_table_next_id(struct job_table *t)
{
    return ++t->last_id;
}

bool job_table_add(struct job_table *t, struct job *j)
{
    if (t->n == t->cap) {
        int32_t cap = t->cap ? t->cap * 2 : 64;
        struct job_entry *grown = realloc(t->entries, (size_t)cap * sizeof *grown);
        if (!grown)
            return false;
        t->entries = grown;
        t->cap = cap;
    }
    job_ref(j);
    t->entries[t->n++] = (struct job_entry){.job = j};
    return true;
}

struct job *job_table_find(const struct job_table *t, const char *key)
{
    struct job *ended = NULL;
    uint64_t id = key[0] == '#' ? strtoull(key + 1, NULL, 10) : 0;
    for (int32_t i = 0; i < t->n; i++) {
        struct job *j = t->entries[i].job;
        if (id ? j->id != id : !j->params.detached || strcmp(j->params.key, key) != 0)
            continue;
        if (!atomic_load(&j->over))
            return j;
        ended = j;
    }
    return ended;
}

static bool kept(const struct job_entry *entry, double now_ms)
{
    return entry->job->params.detached && now_ms - entry->over_ms < JOB_TABLE_KEEP_MS;
}

/* Until the ended jobs' events fit the budget, the one that ended first is forgotten. */
static void shrink(struct job_table *t)
{
    for (;;) {
        size_t bytes = 0;
        int32_t oldest = -1;
        for (int32_t i = 0; i < t->n; i++) {
            if (t->entries[i].over_ms <= 0)
                continue;
            bytes += t->entries[i].bytes;
            if (oldest < 0 || t->entries[i].over_ms < t->entries[oldest].over_ms)
                oldest = i;
        }
        if (bytes <= JOB_TABLE_KEEP_BYTES)
            return;
        job_unref(&t->entries[oldest].job);
        t->entries[oldest] = t->entries[--t->n];
    }
}

void job_table_sweep(struct job_table *t, double now_ms)
{
    for (int32_t i = 0; i < t->n;) {
        struct job_entry *entry = &t->entries[i];
        bool over = atomic_load(&entry->job->over);
        if (over && entry->over_ms <= 0) {
            entry->over_ms = now_ms;
            entry->bytes = event_log_bytes(&entry->job->log);
        }
        if (over && !kept(entry, now_ms)) {
            job_unref(&entry->job);
            *entry = t->entries[--t->n];
        } else {
            i++;
        }
    }
    shrink(t);
}

int32_t job_table_running(const struct job_table *t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++)
        n += !atomic_load(&t->entries[i].job->over);
    return n;
}

struct jobs_waiting job_table_waiting(const struct job_table *t, uint64_t user)
{
    struct jobs_waiting w = {0};
    for (int32_t i = 0; i < t->n; i++) {
        const struct job *j = t->entries[i].job;
        if (!atomic_load(&j->queued))
            continue;
        const bool own = user && j->params.user == user;
        const int32_t tokens = j->params.n_texts ? j->params.n_prompt : 0;
        w.own += own;
        w.text_tokens += tokens;
        w.own_text_tokens += own ? tokens : 0;
    }
    return w;
}

int32_t job_table_kept(const struct job_table *t)
{
    return t->n - job_table_running(t);
}

void job_table_cancel_all(struct job_table *t)
{
    for (int32_t i = 0; i < t->n; i++)
        atomic_store(&t->entries[i].job->cancel, true);
}
