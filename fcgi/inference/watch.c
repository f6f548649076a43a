/* watch.h: one poll over the jobs, the client's connection and the signal to stop. */
#include "fcgi/inference/watch.h"

#include <errno.h>
#include <poll.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/process/child.h"

#define MAX_JOBS 16

static enum watch_result wait_once(struct request *r, struct engine_job *const *jobs, int n_jobs,
                                   int timeout_ms, int *which)
{
    struct pollfd fds[MAX_JOBS + 2];
    for (int i = 0; i < n_jobs; i++) {
        if (jobs[i] && engine_pending(jobs[i])) {
            *which = i;
            return request_client_gone(r) ? WATCH_GONE : WATCH_EVENT;
        }
        fds[i] = (struct pollfd){.fd = jobs[i] ? engine_job_fd(jobs[i]) : -1, .events = POLLIN};
    }
    fds[n_jobs] = (struct pollfd){.fd = request_client_fd(r), .events = POLLRDHUP};
    fds[n_jobs + 1] = (struct pollfd){.fd = child_abort_fd(), .events = POLLIN};
    log_flush();
    int n = poll(fds, (nfds_t)n_jobs + 2, timeout_ms);
    if (n <= 0)
        return WATCH_TIMEOUT; /* a signal counts as one: the caller looks at its clock and comes
                                 back */
    if (fds[n_jobs].revents) {
        r->client_gone = true;
        return WATCH_GONE;
    }
    if (fds[n_jobs + 1].revents)
        return WATCH_SHUTDOWN;
    for (*which = 0; *which < n_jobs; ++*which)
        if (fds[*which].revents)
            return WATCH_EVENT;
    return WATCH_TIMEOUT;
}

enum watch_result watch_jobs(struct request *r, struct engine_job *const *jobs, int n_jobs,
                             int timeout_ms, int *which)
{
    uint64_t began = clock_ns();
    enum watch_result result =
        wait_once(r, jobs, n_jobs < MAX_JOBS ? n_jobs : MAX_JOBS, timeout_ms, which);
    r->engine_ns += clock_ns() - began;
    return result;
}
