/* Numbers the messages of one conversation and marks the branch that is shown. */
#include <stdlib.h>

#include "fcgi/export/format.h"

struct reading {
    struct export_tree *t;
    struct err *e;
    bool failed;
};

/* Ids rise: a message's number is found by halving. 0: not there. */
static uint32_t number_of(const struct export_tree *t, int64_t id)
{
    uint32_t low = 0, high = t->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->places[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->n && t->places[low].id == id ? low + 1 : 0;
}

static bool grow(struct export_tree *t)
{
    const uint32_t room = t->room ? t->room * 2 : 64;
    struct export_place *places = room > t->room ? realloc(t->places, room * sizeof *places) : NULL;
    if (!places)
        return false;
    t->places = places;
    t->room = room;
    return true;
}

static bool add(void *context, const struct store_message *m)
{
    struct reading *r = context;
    struct export_tree *t = r->t;
    const uint32_t parent = m->parent_id ? number_of(t, m->parent_id) : 0;
    r->failed = true;
    if (m->parent_id && !parent)
        return err_set(r->e, ERR_FORMAT, "a message's parent is not in its conversation");
    if (t->n == t->room && !grow(t))
        return err_set(r->e, ERR_NOMEM, "no memory for a conversation's tree");
    t->places[t->n++] = (struct export_place){
        .id = m->id, .parent = parent, .role = (uint8_t)m->role, .status = (uint8_t)m->status};
    r->failed = false;
    return true;
}

static void mark_shown(struct export_tree *t, int64_t leaf_id)
{
    t->leaf = leaf_id ? number_of(t, leaf_id) : 0;
    t->last_answer = 0;
    for (uint32_t i = t->leaf; i; i = t->places[i - 1].parent) {
        struct export_place *p = &t->places[i - 1];
        p->shown = true;
        if (!t->last_answer && p->role == ROLE_ASSISTANT && p->status == MESSAGE_DONE)
            t->last_answer = i;
    }
}

bool export_tree_read(struct export_tree *t, struct store *s, int64_t user_id,
                      const struct store_export_conversation *c, struct err *e)
{
    struct reading r = {.t = t, .e = e};
    t->n = 0;
    if (!store_message_places(s, &(struct store_ref){.user_id = user_id, .id = c->id}, add, &r,
                              e) ||
        r.failed)
        return false;
    mark_shown(t, c->leaf_id);
    return true;
}

void export_tree_fini(struct export_tree *t)
{
    free(t->places);
    *t = (struct export_tree){0};
}
