/* The list of a server's tools as it is kept in its row: what the server said, made harmless in
 * size, with the name by which the model calls each. A JSON array of
 *   {"name": the server's, "call": for the model, "title", "description", "parameters": JSON
 * Schema, "read_only", "destructive": what the server says of it, "hash": of all that a person
 *    should know before it may run unasked, "problem": why it is not offered, or absent}
 * Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

#define TOOL_LIST_BYTES ((size_t)512 << 10)       /* of one list */
#define TOOL_LIST_SCHEMA_BYTES ((size_t)32 << 10) /* of one tool's parameters */
#define TOOL_LIST_NAME 128                        /* bytes of a tool's own name */
#define TOOL_LIST_CALL 64                         /* of the model's, as OpenAI's form allows */

/* server: its name here. mcp: mcp_list_tools. */
bool tool_list_make(const char *server, const cJSON *mcp, struct buf *out, struct err *e);
/* A kept list as it is under another name of the server: only the model's names change. */
bool tool_list_rename(const char *server, const char *kept, struct buf *out, struct err *e);
/* Adds what the model is to be told of the list's tools to an array in OpenAI's form, as long as it
 * has at most `most`; a name that it has already is not added. */
bool tool_list_offer(const cJSON *list, int most, cJSON *functions);
/* The tool that the model calls by this name, if it is offered; NULL: none is. */
const cJSON *tool_list_find(const cJSON *list, const char *call);
