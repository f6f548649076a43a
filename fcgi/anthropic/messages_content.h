/* The conversation of a request in Anthropic's form, turned into chat's messages. What a text model
 * cannot read (an image in a tool's result, a block of a server's own tool) becomes text where it
 * has some, and is named as ignored otherwise, so that an agent's session does not end on it.
 * Thread: the request's. */
#pragma once
#include "fcgi/openai/chat_build.h"

struct request;

struct messages_reader {
    struct request *r;
    struct chat_build build;
    int files; /* documents that were read */
};

/* `system` and `messages` of the body. Errors name the block, such as messages[2].content[0].type.
 */
bool messages_add(struct messages_reader *m, const cJSON *body, struct err *e);
