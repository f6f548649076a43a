/* server_settings.h: the table, the check of a value, this process's copy of the values. */
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
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "sql/core/store.h"
#include "sql/users/store_users.h"

#define FRESH_MS 1000.0 /* a change that did not come through the API is seen after this */
#define MAX_TOKENS 16777216
#define MAX_UPLOAD 33554432 /* nginx takes no larger body: nginx/server.conf.in */

static const struct setting_row rows[SETTING__N] = {
    [SETTING_BANNER] = {"banner", "page", SETTING_TYPE_TEXT, "\"\"", 0, 500, NULL, NULL, false,
                        "a line of text over everyone's chat; empty: none"},
    [SETTING_BANNER_LEVEL] = {"banner_level", "page", SETTING_TYPE_CHOICE, "\"info\"", 0, 0,
                              "info|warning", NULL, false, "how the banner looks"},
    [SETTING_DEFAULT_TEMPERATURE] =
        {"default_temperature", "model", SETTING_TYPE_NUMBER, "null", 0, 2, NULL, NULL, true,
         "temperature where neither request nor chat says one; null: the model's own"},
    [SETTING_DEFAULT_TOP_P] =
        {"default_top_p", "model", SETTING_TYPE_NUMBER, "null", 0, 1, NULL, NULL, true,
         "top_p where neither request nor chat says one; null: the model's own"},
    [SETTING_DEFAULT_TOP_K] =
        {"default_top_k", "model", SETTING_TYPE_INT, "null", 0, 1000000, NULL, NULL, true,
         "top_k where neither request nor chat says one, 0 is off; null: the model's own"},
    [SETTING_DEFAULT_MIN_P] =
        {"default_min_p", "model", SETTING_TYPE_NUMBER, "null", 0, 1, NULL, NULL, true,
         "min_p where neither request nor chat says one; null: the model's own"},
    [SETTING_DEFAULT_REPETITION_PENALTY] =
        {"default_repetition_penalty", "model", SETTING_TYPE_NUMBER, "null", 0.01, 10, NULL, NULL,
         true, "repetition penalty where neither request nor chat says one; null: the model's own"},
    [SETTING_DEFAULT_MAX_TOKENS] =
        {"default_max_tokens", "model", SETTING_TYPE_INT, "null", 1, MAX_TOKENS, NULL, "tokens",
         true,
         "length of an answer where neither request nor chat says one; null: what the "
         "context leaves"},
    [SETTING_MAX_ANSWER_TOKENS] = {"max_answer_tokens", "limits", SETTING_TYPE_INT, "0", 0,
                                   MAX_TOKENS, NULL, "tokens", false,
                                   "no answer gets longer, whatever is asked for; 0: no limit"},
    [SETTING_SIGN_UP] =
        {"sign_up", "accounts", SETTING_TYPE_CHOICE, "\"closed\"", 0, 0, "closed|invite|open", NULL,
         false, "who may make an account: nobody but an admin, who has an invitation, anyone"},
    [SETTING_USER_TOKENS_PER_DAY] =
        {"user_tokens_per_day", "accounts", SETTING_TYPE_INT, "0", 0, 1e12, NULL, "tokens", false,
         "what a user without limits of their own may use in a day (UTC), prompts and answers; "
         "0: no limit"},
    [SETTING_USER_STORAGE_BYTES] =
        {"user_storage_bytes", "accounts", SETTING_TYPE_INT, "0", 0, 1e15, NULL, "bytes", false,
         "texts and files that a user without limits of their own may keep; 0: no limit"},
    [SETTING_USER_PROMPT_CACHE_BYTES] =
        {"user_prompt_cache_bytes", "accounts", SETTING_TYPE_INT, "0", 0, 1e15, NULL, "bytes",
         false,
         "of the prompt cache on disk that one user may take; 0: no limit, but when its space is "
         "used up, whoever takes the most gives way first"},
    [SETTING_USER_MAX_JOBS] =
        {"user_max_jobs", "accounts", SETTING_TYPE_INT, "32", 0, 1e6, NULL, "jobs", false,
         "running and waiting answers at one time of a user without limits of their own; 0: no "
         "limit"},
    [SETTING_SHARE_LINKS] =
        {"share_links", "accounts", SETTING_TYPE_BOOL, "false", 0, 0, NULL, NULL, false,
         "users may share a chat by a read-only link; when off, links made before stop working"},
    [SETTING_MODEL_TITLES] = {"model_titles", "page", SETTING_TYPE_BOOL, "true", 0, 0, NULL, NULL,
                              false,
                              "the model finds titles for new chats, when nothing else wants it"},
    [SETTING_ATTACHMENT_BYTES] = {"attachment_bytes", "limits", SETTING_TYPE_INT, "10485760", 0,
                                  MAX_UPLOAD, NULL, "bytes", false,
                                  "size of one attached file; 0: no attachments"},
    [SETTING_IMPORT_BYTES] = {"import_bytes", "limits", SETTING_TYPE_INT, "1073741824", 0,
                              SETTING_IMPORT_MAX, NULL, "bytes", false,
                              "size of one imported file; 0: no imports"},
    [SETTING_AUDIT_DAYS] =
        {"audit_days", "limits", SETTING_TYPE_INT, "400", 0, 36500, NULL, "days", false,
         "rows of the audit log that are older are removed, once an hour; 0: kept for ever"},
    [SETTING_GENERIC_TOOL_PROMPT] =
        {"generic_tool_prompt", "api", SETTING_TYPE_BOOL, "true", 0, 0, NULL, NULL, false,
         "a model whose template shows no tools is told of them in the system message; when off, "
         "requests with tools are refused there"},
    [SETTING_MODEL_ALIASES] =
        {"model_aliases", "api", SETTING_TYPE_TEXT, "\"\"", 0, SETTING_TEXT_BYTES, NULL, NULL,
         false,
         "names that also mean the served model, separated by blanks: sonnet gpt-4o claude-*; "
         "* is any name"},
    [SETTING_KEYS_OPTIONAL_ON_LOOPBACK] =
        {"keys_optional_on_loopback", "api", SETTING_TYPE_TEXT, "\"\"", 0, STORE_NAME_MAX * 4, NULL,
         NULL, false,
         "name of the user as whom API requests without a key are answered when they come "
         "from this machine; empty: every request needs a key"},
    [SETTING_STRICT_PARAMETERS] =
        {"strict_parameters", "api", SETTING_TYPE_BOOL, "false", 0, 0, NULL, NULL, false,
         "API requests with a parameter that has no effect here are refused; when off, their "
         "answers name it"},
};

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

const struct setting_row *setting_row(enum server_setting which)
{
    return &rows[which];
}

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
    return row->type == SETTING_TYPE_CHOICE || row->type == SETTING_TYPE_TEXT
               ? check_text(row, v, out, e)
               : check_number(row, v, out, e);
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
        take(&rows[i], rows[i].fallback, &c->values[i]);
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
        if (!strcmp(rows[i].name, name))
            take(&rows[i], json, &values[i]);
    return true;
}

static void follow(struct setting_cache *c, struct store *store, const struct shared *shared)
{
    struct err e = {0};
    uint64_t generation = atomic_load(&shared->settings_generation);
    double now = clock_ms();
    pthread_mutex_lock(&c->lock);
    bool fresh = c->read_ms != 0 && c->generation == generation && now - c->read_ms < FRESH_MS;
    pthread_mutex_unlock(&c->lock);
    struct setting_value *values = fresh || !store ? NULL : calloc(SETTING__N, sizeof *values);
    if (!values)
        return;
    for (int i = 0; i < SETTING__N; i++)
        take(&rows[i], rows[i].fallback, &values[i]);
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
        take(&rows[which], rows[which].fallback, out);
        return;
    }
    follow(c, r->store, r->worker->shared);
    pthread_mutex_lock(&c->lock);
    *out = c->values[which];
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
    struct stored_setting wanted = {.row = &rows[which]};
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
    return row->type == SETTING_TYPE_CHOICE || row->type == SETTING_TYPE_TEXT
               ? cJSON_CreateString(v->text)
               : cJSON_CreateNumber(v->number);
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
    static const char *const types[] = {"bool", "int", "number", "choice", "text"};
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
    if (row->type == SETTING_TYPE_TEXT)
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
        cJSON_AddItemToArray(items, describe(&rows[i], &v));
    }
    if (!items) {
        cJSON_Delete(o);
        err_set(e, ERR_NOMEM, "no memory for the settings");
        return NULL;
    }
    return o;
}

/* A name that is wrong would only show when the first request is refused. */
static bool check_user(struct request *r, const struct setting_row *row, const char *name,
                       struct err *e)
{
    struct store_user user;
    struct err why = {0};
    if (!*name)
        return true;
    if (!store_user_by_name(r->store, r->arena, name, &user, &why) && why.code != ERR_NOTFOUND) {
        *e = why;
        return false;
    }
    return (why.code == ERR_NONE && !user.disabled) ||
           err_field(e, ERR_INPUT, row->name, "there is no user '%.100s' who may log in", name);
}

static bool read_change(struct request *r, const cJSON *item, struct store_setting *out,
                        struct err *e)
{
    struct setting_value v;
    struct buf text = {0};
    int i = 0;
    while (i < SETTING__N && strcmp(rows[i].name, item->string))
        i++;
    if (i == SETTING__N)
        return err_field(e, ERR_INPUT, item->string, "is no setting of this server");
    *out = (struct store_setting){.name = rows[i].name};
    if (cJSON_IsNull(item)) /* back to the default, whatever that is */
        return true;
    if (!check(&rows[i], item, &v, e))
        return false;
    if (i == SETTING_KEYS_OPTIONAL_ON_LOOPBACK && !check_user(r, &rows[i], v.text, e))
        return false;
    out->json = json_write(&text, item) ? arena_strdup(r->arena, text.data) : NULL;
    buf_fini(&text);
    return out->json || err_set(e, ERR_NOMEM, "no memory for the settings");
}

bool server_settings_change(struct request *r, const cJSON *change, char *changed, int size,
                            struct err *e)
{
    struct store_setting list[SETTING__N];
    const cJSON *item;
    int n = 0, used = 0;
    *changed = '\0';
    cJSON_ArrayForEach (
        item,
        change) /* json_parse refused a name that comes twice, so there are SETTING__N at most */
    {
        struct store_setting one;
        if (!read_change(r, item, &one, e))
            return false;
        if (n == SETTING__N)
            return err_set(e, ERR_INPUT, "the body has more members than there are settings");
        list[n++] = one;
        if (used < size)
            used +=
                snprintf(changed + used, (size_t)(size - used), "%s%s", used ? " " : "", one.name);
    }
    if (!n)
        return err_set(e, ERR_INPUT, "the body names no setting");
    if (!store_settings_change(r->store, list, n, e))
        return false;
    atomic_fetch_add(&r->worker->shared->settings_generation, 1);
    return true;
}
