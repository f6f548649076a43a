/* A compiled chat template and what was learnt about it. Private to chat_template*.c. */
#pragma once
#include "engine/chat/chat_template.h"
#include "engine/jinja/jinja.h"

struct chat_template {
    struct jinja *jinja;
    char *source; /* as it came, for look-ups by text */
    size_t source_len;
    char *bos_token, *eos_token; /* NULL: none */
    struct chat_traits traits;
    /* what it expects of messages; see chat_messages_normalize */
    bool takes_parts;       /* content may be a list of parts */
    bool arguments_as_text; /* a call's arguments must stay a string */
    bool short_ids;         /* a call's id must be nine letters or digits (Mistral) */
    bool knows_developer;
    bool shows_calls; /* an assistant's earlier calls are in the prompt */
};

bool chat_template_says(const struct chat_template *t,
                        const char *text); /* anywhere in its source */
/* Learns t->traits and the fields below it by rendering small conversations. */
void chat_template_probe(struct chat_template *t);
