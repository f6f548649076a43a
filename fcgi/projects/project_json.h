/* A project as the page sees it (docs/API-pages.md). */
#pragma once
#include "engine/base/buf.h"
#include "sql/projects/store_project_files.h"
#include "sql/projects/store_projects.h"

/* What is not in the project's row. */
struct project_json_more {
    const struct store_project_files *files; /* NULL: of a list, without them */
    bool by_meaning;                         /* questions are searched by meaning, too */
    int64_t waiting; /* passages of the files that are not found by it yet */
};
void project_json(struct buf *out, const struct store_project *p,
                  const struct project_json_more *more);
