/* Models that a hub knows by a word, or that are known to be of a verified family, and for each
 * what it would be on this machine. One thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/cli/pull/hub_plan.h"
#include "fcgi/cli/pull/pull.h"

enum { HUB_SEARCH_MAX = 30 };

struct hub_found {
    char repo[PULL_REPO_SIZE], quant[64], about[160];
    int64_t downloads, likes; /* -1: the hub did not say */
    double memory_gb;         /* of a known one; else 0 */
    bool gated;               /* its files need a token that was allowed them */
    /* after hub_search_fit */
    bool planned;
    enum hub_verdict verdict;
    char commit[128], why[320]; /* why: what stands against it */
    int64_t bytes, fetched;
    double tokens_per_s; /* 0: unknown */
    struct buf plan;     /* members of its plan's JSON object; empty where there is none */
};

struct hub_search {
    struct pull hub;      /* endpoint, token, proxy, timeout_s, jobs and stop */
    const char *text;     /* "": those of the file `known` */
    const char *known;    /* known-models.json */
    const char *folder;   /* on the disk that models come to; a folder is made in it for heads */
    size_t limit;         /* 1 to HUB_SEARCH_MAX */
    struct hub_plan like; /* how plans are made */
    struct hub_found found[HUB_SEARCH_MAX];
    size_t n;
};

/* Fills found, the most wanted first; of known ones those next to this machine's memory. Nothing
 * found is no error. */
bool hub_search_ask(struct hub_search *s, struct err *e);
/* Plans one; only ERR_CANCELLED and ERR_NOMEM are errors, all else is its verdict. */
bool hub_search_fit(struct hub_search *s, struct hub_found *f, struct err *e);
/* hf.co/REPO[@COMMIT][:QUANT], as pull and up take it. */
void hub_search_name(const struct hub_found *f, bool with_commit, char *out, size_t size);
/* {"query":.., "phase":.., "error":.., "items": up to the items: the file that the admin's page
 * reads while it is written. error: NULL or "" where there is none. */
void hub_search_begin_json(struct buf *b, const char *query, const char *phase, const char *error);
/* [{...}, ...] */
void hub_search_json(const struct hub_search *s, struct buf *b);
void hub_search_close(struct hub_search *s);
