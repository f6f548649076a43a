/* Runs a step with a timestamp at each barrier and sums the times between them by operation. What
 * runs side by side between two barriers has the name of the one recorded last. */
#include "engine/vulkan/ops/step_profile.h"

#include <stdlib.h>
#include <string.h>

#include "engine/vulkan/ops/vulkan_step.h"

static struct backend_operation *operation_of(struct backend_profile *out, const char *name)
{
    for (int32_t i = 0; i < out->n; i++)
        if (!strcmp(out->at[i].name, name))
            return &out->at[i];
    if (out->n == BACKEND_MAX_OPERATIONS)
        return &out->at[out->n - 1];
    out->at[out->n].name = name;
    return &out->at[out->n++];
}

static bool sum_up(struct profile *p, struct gpu *g, struct backend_profile *out, struct err *e)
{
    double *us = malloc(PROFILE_MAX * sizeof *us);
    if (!us)
        return err_set(e, ERR_NOMEM, "no memory for a profile");
    const int n = profile_read(p, g, us, e);
    *out = (struct backend_profile){.n = 0};
    for (int i = 0; i < n; i++) {
        struct backend_operation *o = operation_of(out, p->label[i + 1]);
        o->n++;
        o->us += us[i];
        out->us += us[i];
    }
    free(us);
    return n > 0;
}

bool step_profile_run(struct backend *b, const struct step *s, struct step_row *rows,
                      struct backend_profile *out, struct err *e)
{
    if (b->model.pooled || b->cpu_offload.rows)
        return err_set(e, ERR_UNSUPPORTED,
                       "a step that waits for experts of the disk or the processor has no profile");
    struct profile *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ERR_NOMEM, "no memory for a profile");
    bool ok = profile_open(p, &b->gpu, e);
    b->profile = p;
    ok = ok && vulkan_step_run(b, s, rows, e);
    b->profile = NULL;
    ok = ok && sum_up(p, &b->gpu, out, e);
    profile_close(p, &b->gpu);
    free(p);
    return ok;
}
