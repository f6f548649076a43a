/* Reads content parts of the type "file" in OpenAI's messages as attached files are read
 * (file_reading.h), and replaces each by the text that a conversation's prompt would have. Nothing
 * of them is stored. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"

struct buf;
struct request;

/* The text in the prompt that stands for an image or a recording. */
#define CHAT_UNREAD_IMAGE "[image: this model reads text only]"
#define CHAT_UNREAD_RECORDING "[recording: this model reads text only]"

struct chat_file {
    const char *name; /* as it was sent, or NULL */
    const char *data; /* base64, alone or as a data: URL */
    const char *path; /* the request's field, for errors */
};
/* Appends the text of a file in a frame with its name, as a conversation's prompt has it.
 * ERR_INPUT, ERR_LIMIT, ERR_UNSUPPORTED. */
bool chat_file_text(struct request *r, const struct chat_file *file, struct buf *out,
                    struct err *e);
/* Takes messages that passed chat_check_messages: each file part becomes a text part, and so does
 * each image, which is named as ignored. ERR_UNSUPPORTED: the last message is nothing but images.
 */
bool chat_files_read(struct request *r, cJSON *messages, struct err *e);
