/* Asks each upstream now and then for its list of models: one that is down is found before a user
 * meets it, and one that is well again gets requests again. */
#define LOG_MODULE "relay"
#include <stdlib.h>

#include "engine/base/clock.h"
#include "fcgi/relay/relay_handle.h"
#include "fcgi/relay/relay_job.h"

#define PROBE_MS 5000L

struct relay_probe {
    struct relay *relay;
    struct upstream *to;
    struct relay_handle *handle;
    struct relay_probe *next;
};

static size_t ignore(char *data, size_t size, size_t n, void *context)
{
    (void)data;
    (void)context;
    return size * n;
}

static void end(struct relay_probe *p)
{
    struct relay_probe **at = &p->relay->probes;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (p->handle)
        curl_multi_remove_handle(p->relay->multi, p->handle->easy);
    relay_handle_give(p->to, &p->handle, false); /* it has options of its own */
    p->to->probing = false;
    free(p);
}

static void begin(struct relay *r, struct upstream *u)
{
    struct relay_probe *p = calloc(1, sizeof *p);
    if (!p)
        return;
    *p = (struct relay_probe){.relay = r, .to = u, .next = r->probes};
    r->probes = p;
    u->probing = true;
    p->handle = relay_handle_take(u, u->dialect->models_path, NULL);
    CURL *easy = p->handle ? p->handle->easy : NULL;
    if (!easy || curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, PROBE_MS) ||
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore) ||
        curl_multi_add_handle(r->multi, easy))
        end(p);
}

void relay_probe_due(struct relay *r, double now)
{
    for (struct upstream *u = r->upstreams.first; u; u = u->next) {
        if (u->gone || u->probing || now < u->next_probe || r->stopping)
            continue;
        if (now < u->open_until)
            continue;
        u->next_probe = now + UPSTREAM_PROBE_MS;
        begin(r, u);
    }
}

/* Any answer but an error of its own says that it lives; a list of models is not everyone's. */
bool relay_probe_ended(struct relay *r, CURL *easy, CURLcode rc)
{
    struct relay_probe *p = r->probes;
    long status = 0;
    while (p && !(p->handle && p->handle->easy == easy))
        p = p->next;
    if (!p)
        return false;
    struct upstream *u = p->to;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    const char *why = rc != CURLE_OK ? curl_easy_strerror(rc)
                      : status < 500 ? NULL
                                     : "a probe got an error of the server's own";
    upstream_probed(&r->upstreams, u, rc == CURLE_COULDNT_CONNECT, why);
    if (u->open_until > clock_ms())
        u->next_probe = u->open_until;
    r->attend = r->attend || u->probe_ok;
    end(p);
    return true;
}

void relay_probe_fini(struct relay *r)
{
    while (r->probes)
        end(r->probes);
}
