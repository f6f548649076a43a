/* work.h: one gate in each process. */
#include "fcgi/http/work.h"

#include <stdatomic.h>

#include "engine/base/clock.h"
#include "fcgi/http/client_address.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"

#define WAIT_MS 15000.0
#define KNOWN_MS ((int64_t)30 * 24 * 3600 * 1000) /* as long as a session lasts */
#define LOOK_MS 100                               /* how often a client that waits is looked for */
#define LIGHT_BODY_BYTES ((size_t)64 << 10)

static struct work_gate gate = WORK_GATE_INIT;

/* What a refusal says is busy, for a retry after so many seconds. */
static const struct {
    const char *everyone, *own;
    int retry_s;
} words[WORK__N] = {
    [WORK_PASSWORD] = {"too many passwords are being checked",
                       "other passwords that you sent are being checked", 2},
    [WORK_TEXT] = {"too many long texts are being tokenized",
                   "other long texts of yours are being tokenized", 2},
    [WORK_FILE] = {"too many files are being read", "other files of yours are being read", 5},
    [WORK_SHARE] = {"too many shared conversations are being opened",
                    "shared conversations are being opened from this address already", 2},
    [WORK_TOOL] = {"too many tools run", "other tools of yours run", 5},
    [WORK_SIGN_IN] = {"too many people are signing in by the provider",
                      "others at this address are signing in by the provider already", 5},
};

/* A user's id, or of a stranger the address, as a number that is nobody's id. */
static int64_t owner_of(const struct request *r)
{
    if (r->who.user_id)
        return r->who.user_id;
    return -1 - (int64_t)(client_address_key(r) >> 2);
}

/* Has logged in, or comes from where somebody did lately. */
static bool is_known(const struct request *r, enum work_kind kind)
{
    return kind == WORK_PASSWORD &&
           (r->who.user_id ||
            shared_known_within(r->worker->shared, KNOWN_ADDRESS, client_address_key(r), KNOWN_MS));
}

static bool refuse(struct request *r, enum work_kind kind, bool own, struct err *e)
{
    atomic_fetch_add_explicit(&r->worker->shared->work_refused[kind], 1, memory_order_relaxed);
    r->error_override.retry_after_s = words[kind].retry_s;
    if (own) {
        r->error_override.status = 429;
        r->error_override.code = "rate_limit_exceeded";
    }
    return err_set(e, ERR_BUSY, "%s; try again in %d s",
                   own ? words[kind].own : words[kind].everyone, words[kind].retry_s);
}

bool work_begin(struct request *r, enum work_kind kind, struct err *e)
{
    if (r->work & 1u << kind)
        return true;
    if (!r->work) /* kept, because a login makes the stranger a user */
        r->work_owner = owner_of(r);
    enum work_answer answer = work_gate_take(
        &gate, kind, &(struct work_owner){.id = r->work_owner, .known = is_known(r, kind)});
    if (answer != WORK_TAKEN)
        return refuse(r, kind, answer == WORK_FULL_OWNER, e);
    const double until = clock_ms() + WAIT_MS;
    bool turn = work_gate_turn(&gate, kind, r->work_owner, 0);
    while (!turn && !request_client_gone(r) && clock_ms() < until)
        turn = work_gate_turn(&gate, kind, r->work_owner, LOOK_MS);
    if (turn) {
        r->work |= 1u << kind;
        return true;
    }
    work_gate_give(&gate, kind, r->work_owner, false);
    return r->client_gone ? err_set(e, ERR_CANCELLED, "the client has left")
                          : refuse(r, kind, false, e);
}

bool work_begin_text(struct request *r, struct err *e)
{
    return r->body_len <= LIGHT_BODY_BYTES || work_begin(r, WORK_TEXT, e);
}

void work_end(struct request *r, enum work_kind kind)
{
    if (r->work & 1u << kind)
        work_gate_give(&gate, kind, r->work_owner, true);
    r->work &= ~(1u << kind);
}

void work_end_all(struct request *r)
{
    for (int k = 0; k < WORK__N; k++)
        work_end(r, (enum work_kind)k);
}
