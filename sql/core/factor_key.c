/* Seals second factors by libsodium: crypto_kdf derives the users' keys, crypto_secretbox seals the
 * secrets. */
#include "sql/core/factor_key.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sql/core/statement.h"
#include "sql/core/store.h"

#define CONTEXT "slcotp01" /* crypto_kdf_CONTEXTBYTES */
#define SETTING_CONTEXT "slcset01"
#define DERIVE_CONTEXT "slcpch01"

_Static_assert(FACTOR_SEALED_BYTES ==
                   crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + OTP_SECRET_BYTES,
               "as the schema");
_Static_assert(crypto_kdf_BYTES_MIN <= crypto_secretbox_KEYBYTES &&
                   crypto_secretbox_KEYBYTES <= crypto_kdf_BYTES_MAX,
               "a derived key");

struct key {
    unsigned char bytes[crypto_kdf_KEYBYTES];
};

static bool key_path(struct store *s, char path[STORE_PATH_SIZE], struct err *e)
{
    const char *db = sqlite3_db_filename(s->db, "main"), *slash = db ? strrchr(db, '/') : NULL;
    int n = snprintf(path, STORE_PATH_SIZE, "%.*s" FACTOR_KEY_FILE,
                     slash ? (int)(slash - db) + 1 : 0, db ? db : "");
    return n < STORE_PATH_SIZE || err_set(e, ERR_LIMIT, "the path of the key is too long");
}

/* 1: read; 0: there is none; -1: *e. */
static int read_key(const char *path, struct key *out, struct err *e)
{
    unsigned char more;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(e, FACTOR_KEY_FILE) - 1;
    const bool whole = read(fd, out->bytes, sizeof out->bytes) == (ssize_t)sizeof out->bytes &&
                       read(fd, &more, 1) == 0;
    close(fd);
    return whole ? 1
                 : err_set(e, ERR_FORMAT, FACTOR_KEY_FILE " is not a key of %zu bytes",
                           sizeof out->bytes) -
                       1;
}

static bool write_new(int fd, const char *path, struct err *e)
{
    struct key key;
    randombytes_buf(&key, sizeof key);
    bool ok = write(fd, &key, sizeof key) == (ssize_t)sizeof key && fsync(fd) == 0;
    sodium_memzero(&key, sizeof key);
    return ok || err_errno(e, "%s", path);
}

static bool sync_folder(const char *path, struct err *e)
{
    char folder[STORE_PATH_SIZE];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path) + 1, path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = (fd >= 0 && fsync(fd) == 0) || err_errno(e, "%s", folder);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Whole under another name, then linked: of several processes one makes it, and nobody sees half of
 * it. */
static bool make_key(const char *path, struct err *e)
{
    char fresh[STORE_PATH_SIZE + 16];
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    int fd = mkostemp(fresh, O_CLOEXEC); /* 0600 */
    if (fd < 0)
        return err_errno(e, "%s", fresh);
    bool ok = write_new(fd, fresh, e);
    close(fd);
    if (ok && link(fresh, path) != 0 && errno != EEXIST)
        ok = err_errno(e, "%s", path);
    unlink(fresh);
    return ok && sync_folder(path, e);
}

bool factor_key_make(struct store *s, struct err *e)
{
    char path[STORE_PATH_SIZE];
    return key_path(s, path, e) && (access(path, F_OK) == 0 || make_key(path, e));
}

struct own_key { /* of a user, for one purpose */
    unsigned char bytes[crypto_secretbox_KEYBYTES];
};
_Static_assert(sizeof(struct own_key) == crypto_generichash_KEYBYTES, "both take it");

/* 1; 0: there is no file; -1: *e. context: crypto_kdf's, a name for the purpose. */
static int derive(struct store *s, int64_t user_id, const char *context, struct own_key *out,
                  struct err *e)
{
    char path[STORE_PATH_SIZE];
    struct key key;
    const int rc = key_path(s, path, e) ? read_key(path, &key, e) : -1;
    if (rc != 1)
        return rc;
    crypto_kdf_derive_from_key(out->bytes, sizeof out->bytes, (uint64_t)user_id, context,
                               key.bytes);
    sodium_memzero(&key, sizeof key);
    return 1;
}

/* The same where the file is made if there is none. */
static bool derive_anew(struct store *s, int64_t user_id, const char *context, struct own_key *out,
                        struct err *e)
{
    const int rc = factor_key_make(s, e) ? derive(s, user_id, context, out, e) : -1;
    return rc == 1 || (rc == 0 && err_set(e, ERR_IO, FACTOR_KEY_FILE " has gone"));
}

bool factor_seal(struct store *s, int64_t user_id, const unsigned char secret[OTP_SECRET_BYTES],
                 unsigned char out[FACTOR_SEALED_BYTES], struct err *e)
{
    struct own_key own;
    if (!derive_anew(s, user_id, CONTEXT, &own, e))
        return false;
    randombytes_buf(out, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(out + crypto_secretbox_NONCEBYTES, secret, OTP_SECRET_BYTES, out,
                          own.bytes);
    sodium_memzero(&own, sizeof own);
    return true;
}

int factor_open(struct store *s, int64_t user_id, const unsigned char sealed[FACTOR_SEALED_BYTES],
                unsigned char secret[OTP_SECRET_BYTES], struct err *e)
{
    struct own_key own;
    const int rc = derive(s, user_id, CONTEXT, &own, e);
    if (rc != 1)
        return rc;
    const bool opened =
        crypto_secretbox_open_easy(secret, sealed + crypto_secretbox_NONCEBYTES,
                                   FACTOR_SEALED_BYTES - crypto_secretbox_NONCEBYTES, sealed,
                                   own.bytes) == 0;
    sodium_memzero(&own, sizeof own);
    return opened;
}

bool factor_derive(struct store *s, int64_t user_id, const struct factor_salt *salt,
                   unsigned char out[FACTOR_DERIVED_BYTES], struct err *e)
{
    struct own_key own;
    if (!derive_anew(s, user_id, DERIVE_CONTEXT, &own, e))
        return false;
    crypto_generichash(out, FACTOR_DERIVED_BYTES, salt->bytes, sizeof salt->bytes, own.bytes,
                       sizeof own.bytes);
    sodium_memzero(&own, sizeof own);
    return true;
}

_Static_assert(STORE_SEALED_EXTRA == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES +
                                         crypto_aead_xchacha20poly1305_ietf_ABYTES &&
                   crypto_aead_xchacha20poly1305_ietf_KEYBYTES == crypto_secretbox_KEYBYTES,
               "as the header says");

#define SETTINGS 1 /* in place of a user */

bool store_setting_seal(struct store *s, const char *name, const char *secret, unsigned char *out,
                        struct err *e)
{
    const size_t nonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
    struct own_key own;
    if (!derive_anew(s, SETTINGS, SETTING_CONTEXT, &own, e))
        return false;
    randombytes_buf(out, nonce);
    crypto_aead_xchacha20poly1305_ietf_encrypt(out + nonce, NULL, (const unsigned char *)secret,
                                               strlen(secret), (const unsigned char *)name,
                                               strlen(name), NULL, out, own.bytes);
    sodium_memzero(&own, sizeof own);
    return true;
}

int store_setting_unseal(struct store *s, const char *name, const struct store_sealed *sealed,
                         char *secret, struct err *e)
{
    const size_t nonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
    struct own_key own;
    unsigned long long n = 0;
    if (sealed->len < STORE_SEALED_EXTRA)
        return 0;
    const int rc = derive(s, SETTINGS, SETTING_CONTEXT, &own, e);
    if (rc != 1)
        return rc;
    const bool opened =
        crypto_aead_xchacha20poly1305_ietf_decrypt(
            (unsigned char *)secret, &n, NULL, sealed->bytes + nonce, sealed->len - nonce,
            (const unsigned char *)name, strlen(name), sealed->bytes, own.bytes) == 0;
    secret[opened ? n : 0] = '\0';
    sodium_memzero(&own, sizeof own);
    return opened;
}

static void sealed_in_sql(sqlite3_context *context, int n, sqlite3_value **args)
{
    struct err e = {0};
    unsigned char out[FACTOR_SEALED_BYTES];
    const void *secret = sqlite3_value_blob(args[1]);
    (void)n;
    if (sqlite3_value_bytes(args[1]) != OTP_SECRET_BYTES)
        sqlite3_result_error(context, "a second factor's secret is of another length", -1);
    else if (factor_seal(sqlite3_user_data(context), sqlite3_value_int64(args[0]), secret, out, &e))
        sqlite3_result_blob(context, out, sizeof out, SQLITE_TRANSIENT);
    else
        sqlite3_result_error(context, e.text, -1);
}

bool factor_functions(struct store *s, struct err *e)
{
    return !sqlite3_create_function(s->db, "factor_sealed", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, s,
                                    sealed_in_sql, NULL, NULL) ||
           store_failed(s, e);
}
