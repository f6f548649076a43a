/* Builds chat messages, as chat_request.h takes them, out of conversations in other forms
 * (Responses, Messages, Ollama's). Texts are referred to, not copied: the body's tree must outlive
 * what is built. `failed`: no memory. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

struct chat_build {
    cJSON *messages;  /* the list, owned by the caller */
    cJSON *assistant; /* the assistant's message that may still grow, or NULL */
    bool failed;
};

/* A new message at the end; ends the assistant's. NULL: no memory. */
cJSON *chat_build_message(struct chat_build *b, const char *role);
/* The assistant's message that grows, begun where there is none. */
cJSON *chat_build_assistant(struct chat_build *b);
/* Adds a text to the message's content; several texts become parts. */
void chat_build_text(struct chat_build *b, cJSON *message, const char *text);
/* Adds a text that the body's tree does not hold, so it is copied into the arena. */
bool chat_build_copy(struct chat_build *b, struct arena *a, cJSON *message, const struct buf *text,
                     struct err *e);
void chat_build_reasoning(struct chat_build *b, cJSON *message, const char *text);
/* arguments: JSON text, copied. */
void chat_build_call(struct chat_build *b, cJSON *message, const char *id, const char *name,
                     const char *arguments);
/* Names a member of an object after another tree's value (NULL: nothing is added). */
void chat_build_refer(struct chat_build *b, cJSON *o, const char *name, const cJSON *value);
/* err_field with a formatted path, such as messages[2].content. Always false. */
bool chat_build_fail(struct err *e, enum err_code code, const char *why, const char *path, ...)
    __attribute__((format(printf, 4, 5)));
/* After an error of chat's readers over what was built: puts `to` in the place of `from`, one or
 * more whole names of the field's path, where it stands. Always false. */
bool chat_build_rename(struct err *e, const char *from, const char *to);
