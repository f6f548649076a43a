/* A code is taken and its step stored in one transaction, so that of two logins with the same code
 * one fails. */
#include "sql/users/store_factor.h"

#include <ctype.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/factor_key.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

struct row {
    int64_t user_id;
    unsigned char sealed[FACTOR_SEALED_BYTES];
    int64_t confirmed_at, last_step;
    int codes;
    bool lost; /* take_code: the key that it was sealed with is not here */
};

/* 1: there is one; 0: none; -1: *e. */
static int read_row(struct store *s, int64_t user_id, struct row *out, struct err *e)
{
    *out = (struct row){.user_id = user_id};
    sqlite3_stmt *q = statement_begin(s, QUERY_FACTOR_GET, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":user_id", user_id);
    int rc = statement_step(s, q, e);
    if (rc == 1) {
        memcpy(out->sealed, sqlite3_column_blob(q, 0),
               sizeof out->sealed); /* its length is a CHECK of the table */
        out->confirmed_at = sqlite3_column_int64(q, 1);
        out->last_step = sqlite3_column_int64(q, 2);
        out->codes = sqlite3_column_int(q, 3);
    }
    statement_end(q);
    return rc;
}

bool store_factor_get(struct store *s, int64_t user_id, struct store_factor *out, struct err *e)
{
    struct row row;
    int rc = read_row(s, user_id, &row, e);
    *out = (struct store_factor){.on = row.confirmed_at != 0,
                                 .confirmed_at = row.confirmed_at,
                                 .recovery_codes = row.confirmed_at ? row.codes : 0};
    return rc >= 0;
}

/* One statement that carries :user_id; *changed (may be NULL): rows. */
static bool run(struct store *s, enum query which, int64_t user_id, int *changed, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    return statement_run(s, q, changed, e);
}

static bool begin(struct store *s, int64_t user_id, const unsigned char *secret, struct err *e)
{
    int changed = 0;
    unsigned char sealed[FACTOR_SEALED_BYTES];
    sqlite3_stmt *q = factor_seal(s, user_id, secret, sealed, e)
                          ? statement_begin(s, QUERY_FACTOR_BEGIN, e)
                          : NULL;
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_blob(q, ":sealed", sealed, sizeof sealed);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, &changed, e) &&
           (changed == 1 ||
            err_set(e, ERR_CONFLICT, "a second factor is on already; remove it first"));
}

bool store_factor_begin(struct store *s, int64_t user_id,
                        const unsigned char secret[OTP_SECRET_BYTES], struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, begin(s, user_id, secret, e), e);
}

static bool add_codes(struct store *s, int64_t user_id,
                      const unsigned char recovery[][SECRET_HASH_BYTES], struct err *e)
{
    if (!run(s, QUERY_RECOVERY_REMOVE_ALL, user_id, NULL, e))
        return false;
    for (int i = 0; i < STORE_RECOVERY_CODES; i++) {
        sqlite3_stmt *q = statement_begin(s, QUERY_RECOVERY_ADD, e);
        if (!q)
            return false;
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_blob(q, ":code_hash", recovery[i], SECRET_HASH_BYTES);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

/* Stores the step of the code, so that the same code fails the second time. */
static bool take_code(struct store *s, struct row *row, const char *code, bool *taken,
                      struct err *e)
{
    int changed = 0;
    unsigned char secret[OTP_SECRET_BYTES];
    *taken = false;
    const int opened = factor_open(s, row->user_id, row->sealed, secret, e);
    if (opened < 0)
        return false;
    row->lost = !opened;
    const int64_t step = opened ? otp_match(secret, code, clock_wall_s(), row->last_step) : -1;
    secret_wipe(secret, sizeof secret);
    if (step < 0)
        return true;
    sqlite3_stmt *q = statement_begin(s, QUERY_FACTOR_STEP, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", row->user_id);
    statement_bind_int(q, ":step", step);
    if (!statement_run(s, q, &changed, e))
        return false;
    *taken = changed == 1;
    return true;
}

static bool confirm(struct store *s, const struct store_factor_confirmation *c, struct err *e)
{
    struct row row;
    bool taken = false;
    int rc = read_row(s, c->user_id, &row, e);
    if (rc < 0)
        return false;
    if (rc == 0 || row.confirmed_at)
        return err_set(e, ERR_CONFLICT,
                       rc ? "the second factor is on already" : "begin with a new secret first");
    if (!take_code(s, &row, c->code, &taken, e))
        return false;
    if (row.lost)
        return err_set(e, ERR_CONFLICT, "begin with a new secret first");
    if (!taken)
        return err_field(e, ERR_INPUT, "code", "is not the code that the app shows now");
    sqlite3_stmt *q = statement_begin(s, QUERY_FACTOR_CONFIRM, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", c->user_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, NULL, e) && add_codes(s, c->user_id, c->recovery, e) &&
           users_end_sessions(s, c->user_id, c->keep_session, NULL, e);
}

bool store_factor_confirm(struct store *s, const struct store_factor_confirmation *c, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, confirm(s, c, e), e);
}

/* Recovery codes as people type them: case and what stands between the groups of five do not
 * matter. */
static bool take_recovery(struct store *s, int64_t user_id, const char *code, bool *taken,
                          struct err *e)
{
    char plain[SECRET_PASSWORD_SIZE];
    size_t n = 0;
    unsigned char hash[SECRET_HASH_BYTES];
    int changed = 0;
    *taken = false;
    for (; *code; code++) {
        if (*code == ' ' || *code == '-')
            continue;
        if (n % 6 == 5)
            plain[n++] = '-';
        if (n >= sizeof plain - 1)
            return true;
        plain[n++] = (char)tolower((unsigned char)*code);
    }
    plain[n] = 0;
    secret_hash(plain, hash);
    sqlite3_stmt *q = statement_begin(s, QUERY_RECOVERY_USE, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_blob(q, ":code_hash", hash, sizeof hash);
    if (!statement_run(s, q, &changed, e))
        return false;
    *taken = changed == 1;
    return true;
}

static bool check(struct store *s, int64_t user_id, const char *code, bool *recovery, struct err *e)
{
    struct row row;
    bool taken = false;
    int rc = read_row(s, user_id, &row, e);
    if (rc < 0)
        return false;
    bool ok = rc == 0 || !row.confirmed_at || take_code(s, &row, code, &taken, e);
    ok = ok &&
         (taken || rc == 0 || !row.confirmed_at || take_recovery(s, user_id, code, recovery, e));
    if (!ok || taken || *recovery)
        return ok;
    return err_set(e, ERR_AUTH,
                   row.lost ? "the server has lost the key to this second factor: a recovery code "
                              "lets you in, or an admin takes it away"
                            : "the code is wrong or was used already");
}

bool store_factor_check(struct store *s, int64_t user_id, const char *code, bool *recovery,
                        struct err *e)
{
    *recovery = false;
    return store_write_begin(s, e) && store_write_end(s, check(s, user_id, code, recovery, e), e);
}

bool store_factor_lost(struct store *s, int *n, struct err *e)
{
    int rc;
    sqlite3_stmt *q = statement_begin(s, QUERY_FACTOR_ALL, e);
    if (!q)
        return false;
    for (*n = 0; (rc = statement_step(s, q, e)) == 1;) {
        unsigned char secret[OTP_SECRET_BYTES];
        const int opened =
            factor_open(s, sqlite3_column_int64(q, 0), sqlite3_column_blob(q, 1), secret, e);
        if (opened < 0) {
            rc = -1;
            break;
        }
        secret_wipe(secret, sizeof secret);
        *n += !opened;
    }
    statement_end(q);
    return rc == 0;
}

bool store_factor_new_codes(struct store *s, int64_t user_id,
                            const unsigned char recovery[STORE_RECOVERY_CODES][SECRET_HASH_BYTES],
                            struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, add_codes(s, user_id, recovery, e), e);
}

bool users_remove_factor(struct store *s, int64_t user_id, struct err *e)
{
    return run(s, QUERY_RECOVERY_REMOVE_ALL, user_id, NULL, e) &&
           run(s, QUERY_FACTOR_REMOVE, user_id, NULL, e);
}

bool store_factor_remove(struct store *s, int64_t user_id, struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, users_remove_factor(s, user_id, e), e);
}
