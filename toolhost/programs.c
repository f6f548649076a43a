/* programs.h: {"programs": {"NAME": {"command", "args", "env", "folder", "read", "write",
 * "network", "memory_mb", "cpu_s"}}}. */
#define LOG_MODULE "toolhost"
#include "toolhost/programs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/json/json.h"
#include "engine/base/log.h"

#define FILE_BYTES ((size_t)1 << 20)
#define MEMORY_MB 2048
#define CPU_S 600

struct reading {
    struct arena *arena;
    const char *name; /* of the program */
    struct err *e;
};

static bool wrong(const struct reading *r, const char *field, const char *why)
{
    return err_set(r->e, ERR_INPUT, "program '%s': %s %s", r->name, field, why);
}

/* An array of texts behind what is in `out`, which ends with NULL. */
static bool read_list(const struct reading *r, const cJSON *o, const char *field, bool paths,
                      const char **out)
{
    const cJSON *list = json_member(o, field), *x;
    size_t n = 0;
    if (!list)
        return true;
    if (!cJSON_IsArray(list))
        return wrong(r, field, "must be a list");
    while (out[n])
        n++;
    cJSON_ArrayForEach (x, list) {
        if (!cJSON_IsString(x) || (paths && x->valuestring[0] != '/'))
            return wrong(r, field, paths ? "must hold absolute paths" : "must hold texts");
        if (n >= PROGRAM_WORDS)
            return wrong(r, field, "holds too many");
        if (!(out[n++] = arena_strdup(r->arena, x->valuestring)))
            return err_set(r->e, ERR_NOMEM, "no memory for the programs");
    }
    return true;
}

static bool read_env(const struct reading *r, const cJSON *o, struct program *p)
{
    const cJSON *env = json_member(o, "env"), *x;
    size_t n = 0;
    if (env && !cJSON_IsObject(env))
        return wrong(r, "env", "must be an object of texts");
    const char *const ours[][2] = {{"LANG", "C.UTF-8"},
                                   {"HOME", p->folder ? p->folder : "/"},
                                   {"PATH", "/usr/local/bin:/usr/bin:/bin"}};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (!json_member(env, ours[i][0])) /* of two with a name the first would count */
            p->env[n++] = arena_printf(r->arena, "%s=%s", ours[i][0], ours[i][1]);
    cJSON_ArrayForEach (x, env) {
        if (!cJSON_IsString(x) || !*x->string || strchr(x->string, '='))
            return wrong(r, "env", "must be an object of texts");
        if (n >= PROGRAM_WORDS)
            return wrong(r, "env", "holds too many");
        p->env[n++] = arena_printf(r->arena, "%s=%s", x->string, x->valuestring);
    }
    for (size_t i = 0; i < n; i++)
        if (!p->env[i])
            return err_set(r->e, ERR_NOMEM, "no memory for the programs");
    return true;
}

static bool check_fields(const struct reading *r, const cJSON *o)
{
    static const char *const known[] = {"command", "args",    "env",       "folder", "read",
                                        "write",   "network", "memory_mb", "cpu_s",  NULL};
    const cJSON *x;
    cJSON_ArrayForEach (x, o) {
        int i = 0;
        while (known[i] && strcmp(known[i], x->string))
            i++;
        if (!known[i])
            return wrong(r, x->string, "is not a field of a program");
    }
    return true;
}

static bool read_program(const struct reading *r, const cJSON *o, struct program *p)
{
    const char *command = NULL, *folder = NULL;
    int64_t memory_mb = MEMORY_MB;
    const size_t n = strlen(r->name);
    if (!cJSON_IsObject(o))
        return wrong(r, "it", "must be an object");
    if (!n || n > PROGRAM_NAME || strspn(r->name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != n)
        return wrong(r, "its name", "must have 1 to 24 small letters, digits, '_' or '-'");
    p->name = arena_strdup(r->arena, r->name);
    p->cpu_s = CPU_S;
    if (!check_fields(r, o))
        return false;
    if (!json_get_string(o, "command", &command, r->e) ||
        !json_get_string(o, "folder", &folder, r->e) ||
        !json_get_bool(o, "network", &p->network, r->e) ||
        !json_get_int(o, "memory_mb", 16, 1 << 20, &memory_mb, r->e) ||
        !json_get_int(o, "cpu_s", 1, 86400, &p->cpu_s, r->e))
        return err_prefix(r->e, "program '%s': %s", r->name, r->e->field);
    if (!command || command[0] != '/')
        return wrong(r, "command", "must be the absolute path of a program");
    if (folder && folder[0] != '/')
        return wrong(r, "folder", "must be an absolute path");
    p->memory_bytes = memory_mb << 20;
    p->argv[0] = arena_strdup(r->arena, command);
    p->folder = folder ? arena_strdup(r->arena, folder) : NULL;
    if (!p->name || !p->argv[0] || (folder && !p->folder))
        return err_set(r->e, ERR_NOMEM, "no memory for the programs");
    return read_list(r, o, "args", false, (const char **)p->argv) &&
           read_list(r, o, "read", true, p->read) && read_list(r, o, "write", true, p->write) &&
           read_env(r, o, p);
}

bool programs_read(struct programs *out, struct arena *a, const char *path, struct err *e)
{
    memset(out, 0, sizeof *out);
    cJSON *v = json_parse_file(path, FILE_BYTES, e);
    const cJSON *list = json_member(v, "programs"), *x;
    bool ok =
        v && (cJSON_IsObject(list) || err_set(e, ERR_INPUT, "%s has no object \"programs\"", path));
    if (ok) {
        cJSON_ArrayForEach (x, list) {
            const struct reading r = {.arena = a, .name = x->string, .e = e};
            ok = ok &&
                 (out->n < PROGRAMS_MAX ||
                  err_set(e, ERR_LIMIT, "%s has more than %d programs", path, PROGRAMS_MAX)) &&
                 read_program(&r, x, &out->list[out->n++]);
        }
    }
    cJSON_Delete(v);
    return ok;
}

static void warn_of_missing(const struct program *p, const char *field, const char *const *paths)
{
    for (; *paths; paths++)
        if (access(*paths, F_OK) != 0)
            log_warn("program %s: %s: %s: %s; the program can't use it", p->name, field, *paths,
                     strerror(errno));
}

void programs_warn(const struct program *p)
{
    warn_of_missing(p, "read", p->read);
    warn_of_missing(p, "write", p->write);
}

struct program *programs_find(struct programs *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(p->list[i].name, name))
            return &p->list[i];
    return NULL;
}
