/* Content parts of the type "file" in OpenAI's messages: read as attached files are (file_reading.h), and put into the message as
 * the text that a conversation's prompt would have. Nothing of them is kept. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"

struct request;

/* Messages that chat_check_messages let through: each file part becomes a text part. */
bool chat_files_read(struct request *r, cJSON *messages, struct err *e);
