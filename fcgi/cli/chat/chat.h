/* `sluice chat`: conversations of the page in a terminal. chat_server.c speaks with the server's
 * own API (docs/API-pages.md), so both see the same history; chat_key.c finds the key; cmd_chat.c
 * reads what is typed. One thread. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/cli/client/cli_http.h"

struct arena;

enum { CHAT_FILES_MAX = 20 };

struct chat {
    struct cli_http server;
    bool plain;                      /* no colours: not a terminal, or --json */
    bool quiet;                      /* the answer is not printed as it comes */
    char conversation[32], leaf[32]; /* ids; "" : none yet */
    char files[CHAT_FILES_MAX][32];  /* ids of what the next message takes along */
    int n_files;
    cJSON *last; /* the message of the last answer; NULL: none */
};

/* ---- chat_key.c */
/* The key: from the file, or the one that an earlier chat made, or a new one from the state folder,
 * which is kept in ~/.config/sluice/chat.json for this server. */
struct chat_key_ask {
    const char *url, *file, *state, *user, *home; /* file, state, user: NULL */
};
bool chat_key_find(const struct chat_key_ask *ask, struct arena *a, const char **key,
                   struct err *e);

/* ---- chat_server.c */
/* Sends the text with the files, prints the answer as it comes. Ctrl-C stops the answer, which is
 * kept, and is no error. text NULL: another answer to the last message. */
bool chat_say(struct chat *c, const char *text, struct err *e);
bool chat_attach(struct chat *c, const char *path, struct err *e);
/* Prints the newest conversations: "ID  TITLE". as JSON: one array. */
bool chat_list(const struct chat *c, bool json, struct err *e);
/* Goes on with a conversation, and prints its displayed branch; id NULL: the newest. */
bool chat_open(struct chat *c, const char *id, bool show, struct err *e);
void chat_forget(struct chat *c); /* the next message begins another conversation */
void chat_catch_interrupts(void);
