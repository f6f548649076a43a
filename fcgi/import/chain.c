/* chain.h: nodes are found by their index, since adding one may move all. */
#include "fcgi/import/chain.h"

#include "engine/base/arena.h"

static struct draft_node *new_node(struct chain *c, enum store_role role, struct err *e)
{
    const char *id = arena_printf(c->d->arena, "%s#%d", c->id, c->n++);
    if (!id) {
        draft_no_memory(e);
        return NULL;
    }
    struct draft_node *n = draft_add(c->d, id, c->parent, e);
    if (!n)
        return NULL;
    c->at = c->d->n_nodes - 1;
    c->parent = id;
    n->message.role = role;
    n->message.created_at = c->created_at;
    n->message.model = role == ROLE_ASSISTANT ? c->model : NULL;
    return n;
}

struct draft_node *chain_speaker(struct chain *c, struct err *e)
{
    struct draft_node *n = c->at >= 0 ? &c->d->nodes[c->at] : NULL;
    return n && n->message.role == c->role && !n->message.tool_calls ? n : new_node(c, c->role, e);
}

bool chain_text(struct chain *c, const char *text, struct err *e)
{
    struct draft_node *n = *text ? chain_speaker(c, e) : NULL;
    return n ? (n->message.content = draft_join(c->d, n->message.content, "\n\n", text, e)) != NULL
             : !*text;
}

bool chain_thoughts(struct chain *c, const char *text, struct err *e)
{
    struct draft_node *n = *text ? chain_speaker(c, e) : NULL;
    return n ? (n->message.reasoning = draft_join(c->d, n->message.reasoning, "\n\n", text, e)) !=
                   NULL
             : !*text;
}

bool chain_call(struct chain *c, const char *id, const char *name, const char *arguments,
                struct err *e)
{
    struct draft_node *n = chain_speaker(c, e);
    if (n)
        n->message.tool_calls =
            draft_call(c->d, *id ? id : n->id, *name ? name : "tool", arguments, e);
    return n && n->message.tool_calls;
}

bool chain_result(struct chain *c, const char *call_id, const char *text, struct err *e)
{
    struct draft_node *n = new_node(c, ROLE_TOOL, e);
    if (!n)
        return false;
    n->message.content = text;
    n->message.tool_call_id = *call_id ? call_id : NULL;
    return true;
}

bool chain_end(struct chain *c, struct err *e)
{
    struct draft_node *end = draft_add(c->d, c->id, c->parent, e);
    if (!end)
        return false;
    end->hidden = true;
    end->message.created_at = c->created_at;
    return true;
}
