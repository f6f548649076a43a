/* responses.h: truncation: auto. Whole turns go, oldest first: from a user's message up to the next
 * one, so that no tool's result stays without its call. System messages and the last turn stay. A
 * compaction, which keeps what the user said, goes by steps first: a message of the model with its
 * tools' results. */
#include <stdio.h>
#include <string.h>

#include "fcgi/http/request.h"
#include "fcgi/responses/responses.h"
#include "fcgi/status/engine_status.h"

#define MAX_TRIES 16

static bool has_role(const cJSON *message, const char *role)
{
    const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
    return own && !strcmp(own, role);
}

static bool stays(const cJSON *message)
{
    return has_role(message, "system") || has_role(message, "developer");
}

/* Roughly what a message takes of the prompt: the length of all strings in it. */
static size_t weigh(const cJSON *v)
{
    const cJSON *item;
    size_t n = cJSON_IsString(v) ? strlen(v->valuestring) : 0;
    if (cJSON_IsArray(v) || cJSON_IsObject(v))
        cJSON_ArrayForEach (item, v)
            n += weigh(item);
    return n + 8; /* the marks around it */
}

/* The oldest turn, but not the last one: first, and the message behind it. */
static cJSON *oldest_turn(const cJSON *messages, const cJSON **end)
{
    cJSON *first = messages->child;
    while (first && stays(first))
        first = first->next;
    *end = first ? first->next : NULL;
    while (*end && !has_role(*end, "user"))
        *end = (*end)->next;
    return *end ? first : NULL;
}

/* The oldest step that the model took: a message with the results of its calls. */
static cJSON *oldest_step(const cJSON *messages, const cJSON **end)
{
    cJSON *first = messages->child;
    while (first && (stays(first) || has_role(first, "user")))
        first = first->next;
    *end = first ? first->next : NULL;
    while (*end && has_role(*end, "tool"))
        *end = (*end)->next;
    return *end ? first : NULL;
}

/* Drops the oldest turn or step. Gives its weight; 0: there is none to drop. */
static size_t drop_oldest(cJSON *messages, bool by_steps, int *dropped)
{
    const cJSON *end = NULL;
    cJSON *first = by_steps ? oldest_step(messages, &end) : NULL, *next;
    size_t weight = 0;
    if (!first)
        first = oldest_turn(messages, &end);
    if (!first)
        return 0;
    for (cJSON *m = first; m != end; m = next) {
        next = m->next;
        if (stays(m))
            continue;
        weight += weigh(m);
        cJSON_Delete(cJSON_DetachItemViaPointer(messages, m));
        ++*dropped;
    }
    return weight;
}

/* Drops what `over` of `tokens` tokens take by their share of the text. False: nothing more can go.
 */
static bool drop_share(const struct responses_request *q, size_t over, size_t tokens, int *dropped)
{
    cJSON *messages = q->chat.messages;
    const size_t whole = weigh(messages);
    const int before = *dropped;
    size_t gone = 0, turn;
    while (gone * tokens <= over * whole &&
           (turn = drop_oldest(messages, q->compacts, dropped)) > 0)
        gone += turn;
    return *dropped > before;
}

/* Tokens that the prompt may have: an answer needs room as well. */
static size_t room_for_prompt(const struct request *r, const struct responses_request *q)
{
    struct status_page page;
    engine_status_read(r, &page);
    const int32_t n_ctx = page.n_ctx > 0 ? page.n_ctx : 0, wanted = q->chat.settings.max_tokens;
    int32_t answer = wanted > 0 && wanted < n_ctx / 4 ? wanted : n_ctx / 8;
    return n_ctx ? (size_t)(n_ctx - answer) : SIZE_MAX;
}

bool responses_job_make(struct inference_params *p, struct prompt *prompt, struct request *r,
                        struct responses_request *q, struct err *e)
{
    const size_t room = q->truncate ? room_for_prompt(r, q) : SIZE_MAX;
    char message[IGNORED_MESSAGE_BYTES];
    int dropped = 0;
    for (int tries = 1;; tries++) {
        if (!chat_job_make(p, prompt, r, &q->chat, e))
            return responses_rename(e);
        if (prompt->ids.n <= room || tries == MAX_TRIES ||
            !drop_share(q, prompt->ids.n - room, prompt->ids.n, &dropped))
            break;
        prompt_fini(prompt);
        *prompt = (struct prompt){0};
        buf_clear(&q->chat.grammar);
    }
    if (dropped) {
        snprintf(
            message, sizeof message,
            "%d of the oldest messages were dropped, so that the conversation fits the context",
            dropped);
        ignored_warn(r, "truncation", message, false);
    }
    return true;
}
