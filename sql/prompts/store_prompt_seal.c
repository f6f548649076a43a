/* store_prompt_seal.h: a salt for each user. */
#include "sql/prompts/store_prompt_seal.h"

#include <sodium.h>
#include <string.h>

#include "sql/core/factor_key.h"
#include "sql/core/statement.h"

_Static_assert(STORE_PROMPT_SEAL_BYTES == FACTOR_DERIVED_BYTES, "a key");

/* 1; 0: there is none; -1: *e. */
static int read_salt(struct store *s, int64_t user_id, struct factor_salt *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_SEAL_GET, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":user_id", user_id);
    int rc = statement_step(s, q, e);
    const void *salt = rc == 1 ? sqlite3_column_blob(q, 0) : NULL;
    if (salt) /* the schema sees to its length */
        memcpy(out->bytes, salt, sizeof out->bytes);
    else if (rc == 1)
        rc = err_set(e, ERR_NOMEM, "no memory for a key") - 1;
    statement_end(q);
    return rc;
}

static bool add_salt(struct store *s, int64_t user_id, struct err *e)
{
    struct factor_salt salt;
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_SEAL_ADD, e);
    if (!q)
        return false;
    randombytes_buf(salt.bytes, sizeof salt.bytes);
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_blob(q, ":salt", salt.bytes, sizeof salt.bytes);
    return statement_run(s, q, NULL, e);
}

static void name_key(struct store_prompt_seal *out)
{
    unsigned char hash[crypto_generichash_BYTES_MIN];
    _Static_assert(sizeof hash * 2 + 1 >= sizeof out->name, "enough of it");
    char hex[sizeof hash * 2 + 1];
    crypto_generichash(hash, sizeof hash, (const unsigned char *)"name", 4, out->key,
                       sizeof out->key);
    sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
    memcpy(out->name, hex, sizeof out->name - 1);
    out->name[sizeof out->name - 1] = '\0';
}

bool store_prompt_seal(struct store *s, int64_t user_id, struct store_prompt_seal *out,
                       struct err *e)
{
    struct factor_salt salt;
    int rc = read_salt(s, user_id, &salt, e);
    if (rc == 0) {
        if (!store_write_begin(s, e) || !store_write_end(s, add_salt(s, user_id, e), e))
            return false;
        rc = read_salt(s, user_id, &salt, e);
    }
    if (rc == 0)
        return err_set(e, ERR_NOTFOUND, "there is no such user");
    if (rc < 0 || !factor_derive(s, user_id, &salt, out->key, e))
        return false;
    name_key(out);
    return true;
}

bool store_prompt_cache_name(struct store *s, int64_t user_id, const char *key,
                             char out[SECRET_TOKEN_SIZE], struct err *e)
{
    static const struct factor_salt purpose = {"prompt_cache_key"}; /* no random one */
    unsigned char own[FACTOR_DERIVED_BYTES];
    unsigned char hash[SECRET_HASH_BYTES];
    if (!factor_derive(s, user_id, &purpose, own, e))
        return false;
    crypto_generichash(hash, sizeof hash, (const unsigned char *)key, strlen(key), own, sizeof own);
    sodium_bin2base64(out, SECRET_TOKEN_SIZE, hash, sizeof hash,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(own, sizeof own);
    return true;
}
