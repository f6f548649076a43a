/* server_settings.h: the check of a value, this process's copy of the values. */
#define LOG_MODULE "settings"
#include "fcgi/config/server_settings.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/config/setting_checks.h"
#include "fcgi/config/setting_table.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "sql/core/store.h"
#include "sql/users/store_users.h"

#define FRESH_MS 1000.0 /* a change that did not come through the API is seen after this */

struct setting_value {
    bool given;    /* not null */
    double number; /* BOOL: 0 or 1 */
    char text[SETTING_TEXT_BYTES + 1];
};

struct setting_cache {
    pthread_mutex_t lock; /* guards all below; never held while the database is read */
    uint64_t generation;  /* of shared memory when the values were read */
    double read_ms;       /* clock_ms; 0: never */
    struct setting_value values[SETTING__N];
};

/* ---- one value ---- */

static bool is_choice(const char *choices, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (len && strcspn(at, "|") == len && !memcmp(at, word, len))
            return true;
    return false;
}

static bool check_number(const struct setting_row *row, const cJSON *v, struct setting_value *out,
                         struct err *e)
{
    if (!cJSON_IsNumber(v))
        return err_field(e, ERR_INPUT, row->name, "must be a number%s",
                         row->nullable ? " or null" : "");
    if (row->type == SETTING_TYPE_INT && floor(v->valuedouble) != v->valuedouble)
        return err_field(e, ERR_INPUT, row->name, "must be a whole number");
    if (!(v->valuedouble >= row->min && v->valuedouble <= row->max))
        return err_field(e, ERR_INPUT, row->name, "must be from %.15g to %.15g", row->min,
                         row->max);
    out->number = v->valuedouble;
    return true;
}

static bool check_text(const struct setting_row *row, const cJSON *v, struct setting_value *out,
                       struct err *e)
{
    if (!cJSON_IsString(v))
        return err_field(e, ERR_INPUT, row->name, "must be a string");
    const char *text = v->valuestring;
    if (row->type == SETTING_TYPE_CHOICE && !is_choice(row->choices, text))
        return err_field(e, ERR_INPUT, row->name, "must be one of %s", row->choices);
    size_t most = row->type == SETTING_TYPE_TEXT ? (size_t)row->max : SETTING_TEXT_BYTES;
    if (strlen(text) > most)
        return err_field(e, ERR_INPUT, row->name, "has %zu bytes, at most %zu are taken",
                         strlen(text), most);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return err_field(e, ERR_INPUT, row->name, "must not have control characters");
    memcpy(out->text, text, strlen(text) + 1);
    return true;
}

static bool is_text(enum setting_type type)
{
    return type == SETTING_TYPE_CHOICE || type == SETTING_TYPE_TEXT || type == SETTING_TYPE_SECRET;
}

static bool check(const struct setting_row *row, const cJSON *v, struct setting_value *out,
                  struct err *e)
{
    *out = (struct setting_value){.given = !cJSON_IsNull(v)};
    if (!out->given)
        return row->nullable || err_field(e, ERR_INPUT, row->name, "must not be null");
    if (row->type == SETTING_TYPE_BOOL) {
        out->number = cJSON_IsTrue(v);
        return cJSON_IsBool(v) || err_field(e, ERR_INPUT, row->name, "must be true or false");
    }
    return is_text(row->type) ? check_text(row, v, out, e) : check_number(row, v, out, e);
}

bool server_settings_check(const struct setting_row *row, const cJSON *v, struct err *e)
{
    struct setting_value unused;
    return check(row, v, &unused, e);
}

/* A row of an older or newer program that is no value of ours has the default. */
static void take(const struct setting_row *row, const char *json, struct setting_value *out)
{
    struct err e = {0};
    cJSON *v = json_parse(json, strlen(json), NULL, &e);
    bool ok = v && check(row, v, out, &e);
    cJSON_Delete(v);
    if (ok)
        return;
    if (json != row->fallback) {
        log_warn("setting=%s has a value that is not taken, so its default holds: %s", row->name,
                 e.text);
        take(row, row->fallback, out);
    }
}

/* ---- this process's copy ---- */

struct setting_cache *setting_cache_create(void)
{
    struct setting_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    for (int i = 0; i < SETTING__N; i++)
        take(&setting_rows[i], setting_rows[i].fallback, &c->values[i]);
    return c;
}

void setting_cache_destroy(struct setting_cache **c)
{
    if (*c)
        pthread_mutex_destroy(&(*c)->lock);
    free(*c);
    *c = NULL;
}

static bool see_row(void *context, const char *name, const char *json)
{
    struct setting_value *values = context;
    for (int i = 0; i < SETTING__N; i++)
        if (!strcmp(setting_rows[i].name, name))
            take(&setting_rows[i], json, &values[i]);
    return true;
}

/* With the lock. */
static bool is_fresh(const struct setting_cache *c, const struct shared *shared)
{
    return c->read_ms != 0 && c->generation == atomic_load(&shared->settings_generation) &&
           clock_ms() - c->read_ms < FRESH_MS;
}

static void follow(struct setting_cache *c, struct store *store, const struct shared *shared)
{
    struct err e = {0};
    uint64_t generation = atomic_load(&shared->settings_generation);
    double now = clock_ms();
    struct setting_value *values = store ? calloc(SETTING__N, sizeof *values) : NULL;
    if (!values)
        return;
    for (int i = 0; i < SETTING__N; i++)
        take(&setting_rows[i], setting_rows[i].fallback, &values[i]);
    bool ok = store_setting_list(store, see_row, values, &e);
    if (!ok)
        log_warn("the settings can't be read, the last ones hold: %s", e.text);
    pthread_mutex_lock(&c->lock);
    c->read_ms = now;
    if (ok &&
        generation >= c->generation) { /* a thread that was slower than a change must not undo it */
        c->generation = generation;
        memcpy(c->values, values, sizeof c->values);
    }
    pthread_mutex_unlock(&c->lock);
    free(values);
}

/* Copies the value out. A process without a cache (a test's) has the defaults. */
static void value_in(const struct request *r, enum server_setting which, struct setting_value *out)
{
    struct setting_cache *c = r->worker->settings;
    if (!c || !r->worker->shared) {
        take(&setting_rows[which], setting_rows[which].fallback, out);
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (!is_fresh(c, r->worker->shared)) {
        pthread_mutex_unlock(&c->lock);
        follow(c, r->store, r->worker->shared);
        pthread_mutex_lock(&c->lock);
    }
    const struct setting_value *v = &c->values[which];
    out->given = v->given;
    out->number = v->number;
    memcpy(out->text, v->text, strlen(v->text) + 1);
    pthread_mutex_unlock(&c->lock);
}

bool server_setting_bool(const struct request *r, enum server_setting which)
{
    struct setting_value v;
    value_in(r, which, &v);
    return v.number != 0;
}

int64_t server_setting_int(const struct request *r, enum server_setting which)
{
    struct setting_value v;
    value_in(r, which, &v);
    return (int64_t)v.number;
}

bool server_setting_number(const struct request *r, enum server_setting which, double *out)
{
    struct setting_value v;
    value_in(r, which, &v);
    if (v.given)
        *out = v.number;
    return v.given;
}

const char *server_setting_text(const struct request *r, enum server_setting which)
{
    struct setting_value v;
    value_in(r, which, &v);
    const char *text = arena_strdup(r->arena, v.text);
    return text ? text : "";
}

struct stored_setting {
    const struct setting_row *row;
    struct setting_value value;
};

static bool see_stored(void *context, const char *name, const char *json)
{
    struct stored_setting *wanted = context;
    if (!strcmp(wanted->row->name, name))
        take(wanted->row, json, &wanted->value);
    return true;
}

bool server_stored_setting_int(struct store *s, enum server_setting which, int64_t *out,
                               struct err *e)
{
    struct stored_setting wanted = {.row = &setting_rows[which]};
    take(wanted.row, wanted.row->fallback, &wanted.value);
    if (!store_setting_list(s, see_stored, &wanted, e))
        return false;
    *out = (int64_t)wanted.value.number;
    return true;
}

/* ---- as the API tells and takes them ---- */

static cJSON *value_json(const struct setting_row *row, const struct setting_value *v)
{
    if (!v->given)
        return cJSON_CreateNull();
    if (row->type == SETTING_TYPE_BOOL)
        return cJSON_CreateBool(v->number != 0);
    if (row->type == SETTING_TYPE_SECRET)
        return cJSON_CreateBool(v->text[0]);
    return is_text(row->type) ? cJSON_CreateString(v->text) : cJSON_CreateNumber(v->number);
}

static void add_choices(cJSON *o, const char *choices)
{
    cJSON *list = cJSON_AddArrayToObject(o, "choices");
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, "|"), at);
        cJSON_AddItemToArray(list, cJSON_CreateString(word));
    }
}

static cJSON *describe(const struct setting_row *row, const struct setting_value *v)
{
    static const char *const types[] = {"bool", "int", "number", "choice", "text", "secret"};
    struct setting_value fallback;
    take(row, row->fallback, &fallback);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", row->name);
    cJSON_AddStringToObject(o, "group", row->group);
    cJSON_AddStringToObject(o, "type", types[row->type]);
    cJSON_AddItemToObject(o, "value", value_json(row, v));
    cJSON_AddItemToObject(o, "default", value_json(row, &fallback));
    if (row->type == SETTING_TYPE_INT || row->type == SETTING_TYPE_NUMBER) {
        cJSON_AddNumberToObject(o, "min", row->min);
        cJSON_AddNumberToObject(o, "max", row->max);
    }
    if (row->type == SETTING_TYPE_TEXT || row->type == SETTING_TYPE_SECRET)
        cJSON_AddNumberToObject(o, "max_bytes", row->max);
    if (row->choices)
        add_choices(o, row->choices);
    if (row->unit)
        cJSON_AddStringToObject(o, "unit", row->unit);
    cJSON_AddBoolToObject(o, "nullable", row->nullable);
    cJSON_AddStringToObject(o, "help", row->help);
    return o;
}

cJSON *server_settings_list(struct request *r, struct err *e)
{
    struct setting_value v;
    cJSON *o = cJSON_CreateObject(), *items = cJSON_AddArrayToObject(o, "items");
    for (int i = 0; i < SETTING__N; i++) {
        value_in(r, (enum server_setting)i, &v);
        cJSON_AddItemToArray(items, describe(&setting_rows[i], &v));
    }
    if (!items) {
        cJSON_Delete(o);
        err_set(e, ERR_NOMEM, "no memory for the settings");
        return NULL;
    }
    return o;
}
