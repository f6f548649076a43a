/* constraint.h: the fields that give the content a form. Each server has its own names for the same
 * few forms; all of them end in one place, so that two of them in one request are seen. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/ignored.h"
#include "fcgi/inference/constraint.h"

#define MAX_CHOICES 1000

enum form { FORM_SCHEMA, FORM_REGEX, FORM_CHOICE, FORM_GRAMMAR, FORM_OBJECT };

struct form_row {
    const char *field; /* as errors name it; its last part is the member's name */
    enum form form;
};

static const struct form_row top_rows[] = {
    {"grammar", FORM_GRAMMAR},      {"json_schema", FORM_SCHEMA},     {"regex", FORM_REGEX},
    {"ebnf", FORM_GRAMMAR},         {"guided_json", FORM_SCHEMA},     {"guided_regex", FORM_REGEX},
    {"guided_choice", FORM_CHOICE}, {"guided_grammar", FORM_GRAMMAR}, {NULL, FORM_OBJECT},
};

#define VLLM "structured_outputs."
static const struct form_row vllm_rows[] = {
    {VLLM "json", FORM_SCHEMA},     {VLLM "regex", FORM_REGEX},        {VLLM "choice", FORM_CHOICE},
    {VLLM "grammar", FORM_GRAMMAR}, {VLLM "json_object", FORM_OBJECT}, {NULL, FORM_OBJECT},
};

const char *constraint_field(int i)
{
    const int n = (int)(sizeof top_rows / sizeof top_rows[0]) - 1;
    return i < n ? top_rows[i].field : i == n ? "structured_outputs" : NULL;
}

/* The answer can have one form: this is the first that the request asks for. */
static bool claim(struct constraint *c, const char *field, struct err *e)
{
    if (c->field)
        return err_field(e, ERR_INPUT, field, "does not go with %s: the answer can have one form",
                         c->field);
    c->field = field;
    return true;
}

/* A schema is JSON, or a string that holds it. */
static bool take_schema(struct constraint *c, const cJSON *v, const char *field, struct err *e)
{
    struct err why = {0};
    c->schema = v;
    if (cJSON_IsString(v)) {
        c->schema = c->parsed = json_parse(v->valuestring, strlen(v->valuestring), NULL, &why);
        if (!c->parsed)
            return err_field(e, ERR_INPUT, field, "is a string that is no JSON: %.150s", why.text);
    }
    return cJSON_IsObject(c->schema) || cJSON_IsBool(c->schema) ||
           err_field(e, ERR_INPUT, field, "must be a JSON schema, as an object or in a string");
}

static bool take_choice(struct constraint *c, const cJSON *v, const char *field, struct err *e)
{
    const cJSON *item;
    int n = cJSON_IsArray(v) ? cJSON_GetArraySize(v) : 0;
    if (n < 1 || n > MAX_CHOICES)
        return err_field(e, ERR_INPUT, field, "must be a list of 1 to %d strings", MAX_CHOICES);
    cJSON_ArrayForEach (item, v)
        if (!cJSON_IsString(item) || !*item->valuestring)
            return err_field(e, ERR_INPUT, field, "must hold strings, none of them empty");
    c->choice = v;
    return true;
}

static bool take_form(struct constraint *c, const struct form_row *row, const cJSON *v,
                      struct err *e)
{
    if (row->form == FORM_OBJECT) {
        if (!cJSON_IsBool(v))
            return err_field(e, ERR_INPUT, row->field, "must be true or false");
        c->json_object = c->json_object || cJSON_IsTrue(v);
        return cJSON_IsFalse(v) || claim(c, row->field, e);
    }
    if (!claim(c, row->field, e))
        return false;
    if (row->form == FORM_SCHEMA)
        return take_schema(c, v, row->field, e);
    if (row->form == FORM_CHOICE)
        return take_choice(c, v, row->field, e);
    if (!cJSON_IsString(v) || !*v->valuestring)
        return err_field(e, ERR_INPUT, row->field, "must be a string that is not empty");
    *(row->form == FORM_REGEX ? &c->regex : &c->gbnf) = v->valuestring;
    return true;
}

static bool take_forms(struct constraint *c, const cJSON *o, const struct form_row *rows,
                       struct err *e)
{
    for (; rows->field; rows++) {
        const char *dot = strrchr(rows->field, '.');
        const cJSON *v = json_member(o, dot ? dot + 1 : rows->field);
        if (v && !take_form(c, rows, v, e))
            return false;
    }
    return true;
}

/* Reports those members of `path` as ignored that are in none of the lists. */
static bool name_unknown(struct request *r, const cJSON *o, const char *path,
                         const char *const *known, struct err *e)
{
    const cJSON *v;
    cJSON_ArrayForEach (v, o) {
        int i = 0;
        while (known[i] && strcmp(known[i], v->string))
            i++;
        char field[IGNORED_FIELD_BYTES];
        snprintf(field, sizeof field, "%.30s.%.30s", path, v->string);
        if (!known[i] && !cJSON_IsNull(v) &&
            !ignored_add(r, field, "this endpoint has no such parameter", e))
            return false;
    }
    return true;
}

static bool read_vllm(struct constraint *c, struct request *r, const cJSON *body, struct err *e)
{
    static const char *const known[] = {"json", "regex", "choice", "grammar", "json_object", NULL};
    const cJSON *o = NULL;
    return json_get_object(body, "structured_outputs", &o, e) &&
           name_unknown(r, o, "structured_outputs", known, e) && take_forms(c, o, vllm_rows, e);
}

static bool read_json_schema(struct constraint *c, struct request *r, const cJSON *format,
                             struct err *e)
{
    static const char *const known[] = {"name", "description", "schema", "strict", NULL};
    const char *path = "response_format.json_schema", *name = NULL, *description = NULL;
    const cJSON *o = json_member(format, "json_schema"), *schema;
    if (!cJSON_IsObject(o))
        return err_field(e, ERR_INPUT, path, "must be an object");
    if (!name_unknown(r, o, path, known, e) || !json_get_string(o, "name", &name, e) ||
        !json_get_string(o, "description", &description, e) ||
        !json_get_bool(o, "strict", &c->strict, e))
        return false;
    if (!name || !*name || strlen(name) > 64)
        return err_field(e, ERR_INPUT, "response_format.json_schema.name",
                         "must have 1 to 64 characters");
    c->field = "response_format.json_schema.schema";
    schema = json_member(o, "schema");
    if (!schema)
        return err_field(e, ERR_INPUT, c->field, "is needed; type json_object takes any object");
    if (!cJSON_IsObject(schema) && !cJSON_IsBool(schema))
        return err_field(e, ERR_INPUT, c->field, "must be an object");
    c->schema = schema;
    return true;
}

static bool read_format(struct constraint *c, struct request *r, const cJSON *body, struct err *e)
{
    static const char *const known[] = {"type", "json_schema", "schema", NULL};
    const cJSON *f = NULL, *plain = NULL;
    const char *type = NULL;
    if (!json_get_object(body, "response_format", &f, e) || !json_get_string(f, "type", &type, e))
        return false;
    if (!f)
        return true;
    if (!type)
        return err_field(e, ERR_INPUT, "response_format.type", "is needed");
    bool schema = !strcmp(type, "json_schema"), object = !strcmp(type, "json_object");
    if (!schema && !object && strcmp(type, "text"))
        return err_field(e, ERR_INPUT, "response_format.type",
                         "must be text, json_object or json_schema");
    if (!schema && json_member(f, "json_schema"))
        return err_field(e, ERR_INPUT, "response_format.json_schema",
                         "only goes with type: json_schema");
    if (!name_unknown(r, f, "response_format", known, e))
        return false;
    plain = json_member(f, "schema"); /* llama.cpp's: without a name around it */
    if (plain && !object && !(schema && !json_member(f, "json_schema")))
        return err_field(e, ERR_INPUT, "response_format.schema",
                         "only goes with type: json_object");
    if (plain)
        return claim(c, "response_format.schema", e) &&
               take_schema(c, plain, "response_format.schema", e);
    if (schema)
        return read_json_schema(c, r, f, e);
    c->json_object = object;
    return !object || claim(c, "response_format", e);
}

bool constraint_read_format(struct constraint *c, struct request *r, const cJSON *body,
                            struct err *e)
{
    return read_format(c, r, body, e) && read_vllm(c, r, body, e) &&
           take_forms(c, body, top_rows, e);
}

void constraint_fini(struct constraint *c)
{
    cJSON_Delete(c->parsed);
    c->parsed = NULL;
}
