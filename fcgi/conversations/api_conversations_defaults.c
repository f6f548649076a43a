/* /api/defaults: the settings with which a user's new conversations begin. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/chats/store_conversations.h"
#include "sql/users/store_users.h"

#define MAX_REPLY ((size_t)1 << 20)

bool conversation_defaults(struct request *r, struct err *e)
{
    const char *stored;
    struct buf out = {.limit = MAX_REPLY};
    if (!store_user_defaults(r->store, r->arena, r->who.user_id, &stored, e))
        return false;
    buf_puts(&out, stored);
    reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return true;
}

bool conversation_change_defaults(struct request *r, struct err *e)
{
    const char *stored;
    struct buf text = {.limit = MAX_REPLY};
    const cJSON *body = request_json(r, e);
    if (!body || !store_user_defaults(r->store, r->arena, r->who.user_id, &stored, e))
        return false;
    cJSON *checked = conversation_settings(r, stored, body, e);
    bool ok = checked &&
              (json_write(&text, checked) || err_set(e, ERR_NOMEM, "no memory for the settings"));
    /* A conversation could not begin with more. */
    if (ok && text.len > STORE_SETTINGS_BYTES)
        ok = err_field(e, ERR_INPUT, "settings", "are longer than %d bytes", STORE_SETTINGS_BYTES);
    ok = ok && store_user_set_defaults(r->store, r->who.user_id, text.data, e);
    if (ok)
        reply_json_buf(r, 200, &text);
    cJSON_Delete(checked);
    buf_fini(&text);
    return ok;
}
