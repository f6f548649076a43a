/* The keys that users' blocks of the prompt cache are sealed with on disk, where the setting
 * prompt_cache_seal is on. A key is made of a random salt in the user's row and of the file
 * factor.key, which is in no backup. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"

struct store;

#define STORE_PROMPT_SEAL_BYTES 32

struct store_prompt_seal {
    unsigned char key[STORE_PROMPT_SEAL_BYTES];
    /* Tells keys apart, and is not to be guessed without the key: the hashes that are keys of
     * blocks are made of it, too. Hexadecimal. */
    char name[17];
};

/* The user's key, which is made where there is none; the caller wipes it. ERR_NOTFOUND: the user is
 * gone. */
bool store_prompt_seal(struct store *s, int64_t user_id, struct store_prompt_seal *out,
                       struct err *e);
/* What stands for a user's prompt_cache_key at another server: the same each time, and neither the
 * user nor the key can be told from it without factor.key. Another user's is another one. */
bool store_prompt_cache_name(struct store *s, int64_t user_id, const char *key,
                             char out[SECRET_TOKEN_SIZE], struct err *e);
