/* A project as the page sees it (docs/API-pages.md). */
#pragma once
#include "engine/base/buf.h"
#include "sql/projects/store_project_files.h"
#include "sql/projects/store_projects.h"

/* files NULL: of a list, without them. */
void project_json(struct buf *out, const struct store_project *p,
                  const struct store_project_files *files);
