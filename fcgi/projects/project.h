/* What an answer is given of its project: the instructions, and the files, whole or by passages.
 *
 * The prompt begins with the instructions and, where they fit into half of the context, the files
 * in their whole, then comes the user's own system prompt. That beginning changes only with the
 * project, so its chats share it in the prompt cache. Where the files do not fit, their names stand
 * there, and passages that match a question stand before the question (sql/projects/ranking.h).
 * What an answer was given stays in its row as "sources", and the prompts of later turns are made
 * of that:
 *
 *   {"project": its name, "instructions": "...",
 *    "files": [{"n", "name", "sha256"}],                                  given whole, as [n]
 *    "passages": [{"n", "name", "sha256", "start", "end", "text"}],   bytes of the file's text
 *    "indexing": some of the text was not searched yet,
 *    "search": "words" or "meaning" (both together); absent: nothing was searched}
 *
 * Contents are named, not rows, so that it says the same on another server.
 *
 * Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "sql/projects/store_project_files.h"
#include "sql/projects/store_projects.h"

struct request;

#define PROJECT_PASSAGE_TOKENS                                                                     \
    4096 /* of all passages of a question, or a quarter of the context                             \
          */
#define PROJECT_PASSAGES 12
#define PROJECT_MEANING_MS 2000.0 /* after which a question is searched by its words alone */
#define PROJECT_SOURCES_BYTES ((size_t)1 << 20) /* that an import takes */

struct project_given {
    struct store_project project; /* id 0: the conversation is in none */
    struct store_project_files files;
    int64_t n_ctx;       /* tokens that prompt and answer may have */
    bool whole;          /* the files stand in the preamble */
    struct buf preamble; /* before the user's system prompt; empty: nothing */
    cJSON *sources;      /* as above; NULL: none */
};
struct project_place {
    int64_t conversation_id; /* whose project; 0: none that is there */
    int64_t project_id;      /* in which one would begin; 0: in none */
    bool search;             /* no file is given whole, whatever its size */
};
/* Tokens that prompt and answer of the request's model may have; a guess where another server
 * answers and its context is not known. */
int64_t project_context(struct request *r);
/* Reads the project. Its files are read as its owner's: that the caller may read it was asked
 * before. ERR_NOTFOUND: project_id. project_given_fini in any case. */
bool project_give(struct request *r, const struct project_place *at, struct project_given *out,
                  struct err *e);
/* Adds to the sources the passages that match; their numbers begin at `first`. */
bool project_search(struct request *r, struct project_given *g, const char *question, int first,
                    struct err *e);
void project_given_fini(struct project_given *g);
/* The name of the model by which files are searched by meaning too; NULL: by words alone. */
const char *project_meaning(const struct request *r);

/* The passages of sources as the prompt shows them before the question; nothing where there are
 * none. */
bool project_put_passages(struct buf *out, const cJSON *sources);
/* The highest number in them; 0: none. */
int project_last_number(const cJSON *sources);
/* Are these sources, as a file brings them? */
bool project_sources_fit(const cJSON *sources);
