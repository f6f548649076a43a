/* Chooses folder, budget and identity of the prompt cache on disk. */
#include "engine/cache/disk/disk_tier.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#define LOG_MODULE "disk"
#include "engine/base/log.h"
#include "engine/base/option.h"
#include "engine/base/size_text.h"

#define SHARE 10    /* of what is free, a tenth */
#define RAM_SHARE 4 /* of what the plan leaves */

bool disk_tier_size(const char *option, const char *text, int64_t *bytes, struct err *e)
{
    if (!strcmp(text, "off"))
        *bytes = DISK_TIER_OFF;
    else if (!strcmp(text, "auto"))
        *bytes = DISK_TIER_AUTO;
    else if (!option_bytes(text, bytes) || *bytes < 1)
        return err_field(e, ERR_INPUT, option, "'%s' is not a size, auto or off", text);
    return true;
}

bool disk_tier_ram(int64_t wanted, bool in_ram, uint64_t left, uint64_t *bytes, struct err *e)
{
    char most[SIZE_TEXT];
    *bytes = 0;
    if (wanted == DISK_TIER_OFF || (wanted == DISK_TIER_AUTO && in_ram))
        return true;
    if (in_ram)
        return err_field(e, ERR_UNSUPPORTED, "prompt-cache-ram",
                         "not needed: the KV cache is in RAM itself here; --kv-memory makes it "
                         "larger");
    if (wanted > 0 && (uint64_t)wanted > left)
        return err_field(e, ERR_LIMIT, "prompt-cache-ram", "the memory plan leaves %s of RAM",
                         size_text((double)left, most));
    *bytes = wanted > 0 ? (uint64_t)wanted : left / RAM_SHARE;
    return true;
}

/* Everything that decides what a token's KV is, bit for bit. */
static uint64_t identity_of(uint64_t weights, const struct backend_ops *ops,
                            const struct backend *backend)
{
    char format[256] = "";
    ops->content->format(backend, format, sizeof format);
    const uint64_t parts[] = {weights, hash64(format, strlen(format), 0), ENGINE_STORED_TOKENS,
                              DISK_TIER_KV_VERSION};
    uint64_t identity = hash64(parts, sizeof parts, 0);
    return identity ? identity : 1; /* 0: no disk cache */
}

static bool folder(const struct disk_tier_params *p, char *out, size_t size, struct err *e)
{
    if (p->dir)
        return (size_t)snprintf(out, size, "%s", p->dir) < size ||
               err_field(e, ERR_INPUT, "prompt-cache-dir", "the path is too long");
    return file_join(out, size, p->cache_dir, "prompt-cache", e);
}

/* What it takes already counts as free, else each start would give it less. */
static bool budget_of(const char *dir, uint64_t taken, uint64_t *bytes, struct err *e)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) != 0)
        return err_errno(e, "prompt cache folder");
    *bytes = ((uint64_t)fs.f_bavail * fs.f_frsize + taken) / SHARE;
    return true;
}

static bool open_cache(struct disk_tier *t, const struct disk_tier_params *p,
                       struct disk_cache_params *cache, struct err *e)
{
    char dir[4096], others[4096];
    struct disk_counters counters;
    if (!folder(p, dir, sizeof dir, e) ||
        (p->cache_dir && !file_join(others, sizeof others, p->cache_dir, "prompt-cache", e)))
        return false;
    cache->dir = dir;
    cache->others = p->cache_dir ? others : NULL;
    cache->budget = (uint64_t)p->bytes;
    cache->ram_budget = p->ram_bytes;
    cache->feed = p->feed;
    cache->wake = p->wake;
    cache->wake_context = p->wake_context;
    t->cache = disk_cache_open(cache, e);
    if (!t->cache)
        return false;
    disk_cache_counters(t->cache, &counters);
    uint64_t budget = cache->budget;
    if (p->bytes == DISK_TIER_AUTO && !budget_of(dir, counters.disk_bytes, &budget, e))
        return false;
    disk_cache_set_budget(t->cache, budget);
    log_info("prompt cache on disk: bytes=%llu budget=%llu record=%u ram_budget=%llu",
             (unsigned long long)counters.disk_bytes, (unsigned long long)budget,
             record_bytes(cache->block_bytes, 0), (unsigned long long)cache->ram_budget);
    return true;
}

/* False, with *e. */
static bool turn_off(struct disk_tier *t, const struct disk_tier_params *p, const struct err *e)
{
    struct err refusal = {0};
    disk_tier_close(t);
    err_set(&refusal, ERR_UNSUPPORTED, "this engine keeps no prompt cache on disk: %.200s",
            e->text);
    record_feed_close(p->feed, &refusal);
    return false;
}

bool disk_tier_open(struct disk_tier *t, const struct disk_tier_params *p,
                    const struct backend_ops *ops, struct backend *backend, struct err *e)
{
    const struct backend_content *content = ops->content;
    size_t block = content ? content->block_bytes(backend) : 0;
    size_t state = content ? content->state_bytes(backend) : 0;
    bool ok = false;
    *t = (struct disk_tier){0};
    if (p->bytes == DISK_TIER_OFF)
        err_set(e, ERR_UNSUPPORTED, "it is switched off");
    else if (!p->dir && !p->cache_dir)
        err_set(e, ERR_UNSUPPORTED, "there is no cache folder");
    else if (!block || (uint64_t)block + state > UINT32_MAX / 2)
        err_set(e, ERR_UNSUPPORTED, "this model's blocks cannot be stored");
    else
        ok = true;
    if (!ok)
        return turn_off(t, p, e);
    t->identity = identity_of(p->weights, ops, backend);
    struct disk_cache_params cache = {
        .identity = t->identity, .block_bytes = (uint32_t)block, .state_bytes = (uint32_t)state};
    if (!open_cache(t, p, &cache, e))
        return turn_off(t, p, e);
    record_feed_open(p->feed);
    return true;
}

void disk_tier_close(struct disk_tier *t)
{
    disk_cache_close(&t->cache);
    t->identity = 0;
}
