/* Drafts what a grammar leaves no choice about: where all tokens that may come next are the
 * beginnings of one text, that text is certain, and most likely in as few tokens as there can be.
 */
#include "engine/draft/drafter.h"

static void forced_draft(struct draft_model *m, struct draft_ask *asks, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const struct draft_picker *p = &asks[i].picker;
        struct draft *d = &asks[i].out;
        int32_t id;
        bool only;
        while (d->n < asks[i].most && p->forced && p->forced(p->context, &id, &only)) {
            d->ground[d->n] = only ? DRAFT_ONLY : DRAFT_FORCED;
            d->ids[d->n++] = id;
        }
    }
}

const struct drafter forced_drafter = {
    .name = "grammar",
    .foresees = true,
    .create = drafter_begin,
    .destroy = drafter_leave,
    .draft = forced_draft,
};
