/* Schema versions: PRAGMA user_version counts the migrations that a file has had. */
#include "sql/core/migrate.h"

#include "sql/core/statement.h"

#define APPLICATION_ID 1397511491 /* "SLUC", set by the schema */

static bool number(struct store *s, enum query which, int64_t *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    return q && statement_int(s, q, out, e);
}

static int last_version(const struct migration *table)
{
    int v = 0;
    for (; table->version; table++)
        v = table->version;
    return v;
}

/* version -1: an empty file. In this order: who sees that another process has made the tables sees
 * their mark and version after that. */
static bool read_version(struct store *s, int64_t *version, struct err *e)
{
    int64_t id = 0, objects = 0;
    if (!number(s, QUERY_OBJECT_COUNT, &objects, e) || !number(s, QUERY_APPLICATION_ID, &id, e) ||
        !number(s, QUERY_USER_VERSION, version, e))
        return false;
    if (!objects)
        *version = -1;
    else if (id != APPLICATION_ID)
        return err_set(e, ERR_FORMAT, "database: this file is not Sluice's (application_id %lld)",
                       (long long)id);
    return true;
}

static bool check_foreign_keys(struct store *s, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_FOREIGN_KEY_CHECK, e);
    if (!q)
        return false;
    int rc = statement_step(s, q, e);
    if (rc == 1)
        err_set(e, ERR_FORMAT, "database: after the migration a row of %s points nowhere",
                statement_column_text(q, 0));
    statement_end(q);
    return rc == 0;
}

static bool apply(struct store *s, int64_t version, const char *schema,
                  const struct migration *table, struct err *e)
{
    if (version < 0)
        return store_exec(s, schema, e);
    for (; table->version; table++)
        if (table->version > version && !store_exec(s, table->text, e))
            return err_prefix(e, "migration %s", table->name);
    return check_foreign_keys(s, e);
}

bool migrate(struct store *s, const char *schema, const struct migration *table, struct err *e)
{
    int64_t version = 0;
    const int last = last_version(table);
    if (!read_version(s, &version, e))
        return false;
    if (version > last)
        return err_set(e, ERR_FORMAT,
                       "database: version %lld was made by a newer Sluice (this one knows %d)",
                       (long long)version, last);
    if (version == last)
        return true;
    /* A migration may rebuild a table that others point at; the check comes at the end. It can't be
     * switched inside a transaction. */
    if (!store_exec(s, query_text[QUERY_FOREIGN_KEYS_OFF], e))
        return false;
    bool ok = store_write_begin(s, e);
    if (ok) {
        /* Another process may have been faster. */
        ok = read_version(s, &version, e) &&
             (version >= last || apply(s, version, schema, table, e));
        ok = store_write_end(s, ok, e);
    }
    return store_exec(s, query_text[QUERY_FOREIGN_KEYS_ON], ok ? e : NULL) && ok;
}
