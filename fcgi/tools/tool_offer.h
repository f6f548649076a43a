/* Which servers' tools a user may have, and what the model is told of them. Thread: the request's.
 */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"
#include "sql/tools/store_tool_servers.h"

struct request;

/* May users add servers of their own? */
bool tool_offer_own(const struct request *r);
/* Is it switched on, and of a kind that the setting tool_servers allows? */
bool tool_offer_usable(const struct request *r, const struct store_tool_server *server);
/* May it be beside this machine, and not only at a public address? */
bool tool_offer_anywhere(const struct request *r, const struct store_tool_server *server);
/* A conversation's settings with the tools of its servers (settings.tool_servers, names) behind its
 * own (settings.tools): what the prompt is made with. A server that is gone or switched off has
 * none. The caller owns it. NULL: *e. */
cJSON *tool_offer_settings(struct request *r, const cJSON *settings, struct err *e);
/* A change of settings.tool_servers: names of servers that the user sees. ERR_INPUT. */
bool tool_offer_check(struct request *r, const cJSON *names, struct err *e);
/* Its form alone, as a file brings it. */
bool tool_offer_check_form(const cJSON *names, struct err *e);

struct tool_offer_call {
    struct store_tool_server server; /* in the request's arena */
    cJSON *list;                     /* of its tools; tool_offer_call_fini */
    const cJSON *tool;               /* in it */
};
/* Whose tool the model calls by this name, among those of the settings' servers; ERR_NOTFOUND with
 * the reason tool_unknown; ERR_CONFLICT with tool_ambiguous: more than one's. *out is to be given
 * to tool_offer_call_fini then, too. */
bool tool_offer_find(struct request *r, const cJSON *settings, const char *call,
                     struct tool_offer_call *out, struct err *e);
void tool_offer_call_fini(struct tool_offer_call *c);
