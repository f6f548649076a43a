/* local_engines.h: what the first model's engine has, beside which all others are planned. */
#include <stdio.h>
#include <string.h>

#include "engine/memory/memory_plan.h"
#include "engine/wire/status.h"
#include "fcgi/cli/up/local_engines.h"
#include "fcgi/cli/up/supervisor.h"
#include "fcgi/cli/up/up.h"

static struct status_page page; /* some 25 KiB; the supervisor's one thread */

uint64_t local_engines_budget(const struct up *u)
{
    struct machine machine;
    struct err ignored;
    if (u->memory.ram_budget)
        return (uint64_t)u->memory.ram_budget;
    return machine_read("", &machine, &ignored) ? machine.total - memory_reserve(machine.total) : 0;
}

/* Each tick: what the first engine has. It keeps its part while it is down or loads, since it comes
 * back; what runs beside it then keeps its own, on the command line of its next start. */
void local_first_look(struct local_engines *l)
{
    struct child *c = supervisor_child(l->supervisor, "engine");
    struct err ignored;
    uint64_t others = 0;
    if (status_read(l->up->status, &page, &ignored) && page.state == ENGINE_READY)
        l->first_bytes = page.host_bytes + page.draft_host_bytes + MEMORY_PROCESS_BYTES;
    else if (c->held && !c->pid) /* unloaded */
        l->first_bytes = 0;
    for (int i = 0; i < LOCAL_ENGINES; i++)
        if (l->at[i].id && local_engine_has_memory(&l->at[i]))
            others += l->at[i].needed;
    if (others < l->up->kept)
        others = l->up->kept;
    snprintf(l->beside, sizeof l->beside, "%llu", (unsigned long long)(l->up->beside + others));
    for (int i = 0; c->argv[i]; i++)
        if (!strcmp(c->argv[i], "--beside"))
            c->argv[i + 1] = l->beside;
}

/* The first model's plan comes before all others, unless it can't be loaded. */
bool local_first_settled(const struct local_engines *l)
{
    const enum switch_phase phase = l->up->model_switch.phase;
    if (phase == SWITCH_UNLOADED)
        return true;
    return (phase == SWITCH_READY || phase == SWITCH_FAILED) &&
           (l->first_bytes || supervisor_child(l->supervisor, "engine")->restarts >= LOCAL_CRASHES);
}
