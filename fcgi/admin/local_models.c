/* local_models.h: the files that `sluice up` writes are read anew for each request. */
#include "fcgi/admin/local_models.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/process/state.h"

#define MAX_CONFIG ((size_t)4 << 20)
#define MAX_STATE ((size_t)1 << 20)
#define MAX_ENTRIES 1000 /* of a folder that holds other things as well */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end);
}

/* Sums the bytes of a folder's weight files, by the ending of their names; of files one folder
 * below where it has none itself, as hubs have a folder for each quantization. */
static double weight_bytes(const char *folder, const char *end, bool deeper)
{
    char path[PATH_MAX];
    struct stat st;
    double sum = 0, below = 0;
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        if (entry->d_name[0] == '.' || !file_join(path, sizeof path, folder, entry->d_name, NULL) ||
            stat(path, &st) != 0)
            continue;
        if (deeper && S_ISDIR(st.st_mode))
            below += weight_bytes(path, end, false);
        else if (ends_with(entry->d_name, end))
            sum += (double)st.st_size;
    }
    if (d)
        closedir(d);
    return sum > 0 ? sum : below;
}

static void add_model_type(cJSON *o, const char *config)
{
    const char *type = NULL;
    cJSON *v = json_parse_file(config, MAX_CONFIG, NULL);
    if (v && json_get_string(v, "model_type", &type, NULL) && type)
        cJSON_AddStringToObject(o, "model_type", type);
    cJSON_Delete(v);
}

void local_models_add(const char *path, cJSON *list)
{
    char config[PATH_MAX], real[PATH_MAX];
    struct stat st;
    const cJSON *other;
    if (!realpath(path, real) || stat(real, &st) != 0 ||
        cJSON_GetArraySize(list) >= LOCAL_MODELS_MAX)
        return;
    cJSON_ArrayForEach (other, list)
        if (!strcmp(cJSON_GetObjectItem(other, "path")->valuestring, real))
            return;
    const bool folder = S_ISDIR(st.st_mode);
    const bool configured = folder && file_join(config, sizeof config, real, "config.json", NULL) &&
                            file_exists(config);
    double safetensors = configured ? weight_bytes(real, ".safetensors", false) : 0,
           gguf = folder ? weight_bytes(real, ".gguf", true) : 0;
    if (!folder && ends_with(real, ".gguf"))
        gguf = (double)st.st_size;
    if (safetensors + gguf <= 0)
        return;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", strrchr(real, '/') + 1);
    cJSON_AddStringToObject(o, "path", real);
    cJSON_AddNumberToObject(o, "bytes", safetensors > 0 ? safetensors : gguf);
    cJSON_AddStringToObject(o, "format", safetensors > 0 ? "safetensors" : "gguf");
    if (configured)
        add_model_type(o, config);
    cJSON_AddItemToArray(list, o);
}

void local_models_scan(const char *folder, cJSON *list)
{
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *entry; d && n < MAX_ENTRIES && (entry = readdir(d)); n++)
        if (entry->d_name[0] != '.' && !ends_with(entry->d_name, ".part") &&
            file_join(path, sizeof path, folder, entry->d_name, NULL))
            local_models_add(path, list);
    if (d)
        closedir(d);
}

cJSON *local_models_state(const char *state_dir, struct err *e)
{
    char path[PATH_MAX];
    int64_t pid = 0;
    cJSON *v = file_join(path, sizeof path, state_dir, STATE_MODELS, e)
                   ? json_parse_file(path, MAX_STATE, e)
                   : NULL;
    bool alive = v && json_get_int(v, "pid", 1, INT_MAX, &pid, e) &&
                 (kill((pid_t)pid, 0) == 0 || errno == EPERM);
    if (alive)
        return v;
    cJSON_Delete(v);
    err_set(
        e, ERR_UNSUPPORTED,
        "`sluice up` does not run here: set the model where the engine's service is configured");
    return NULL;
}

bool local_models_pending(const char *state_dir)
{
    char path[PATH_MAX];
    return file_join(path, sizeof path, state_dir, STATE_MODELS_REQUEST, NULL) && file_exists(path);
}

bool local_models_ask(const char *state_dir, const cJSON *request, struct err *e)
{
    char path[PATH_MAX];
    struct buf text = {0};
    bool ok = file_join(path, sizeof path, state_dir, STATE_MODELS_REQUEST, e);
    if (ok && local_models_pending(state_dir))
        ok = err_set(e, ERR_CONFLICT, "another change of the model has just been asked for") ||
             err_reason(e, "model_busy");
    ok = ok && (json_write(&text, request) || err_set(e, ERR_NOMEM, "no memory for the request")) &&
         file_write_atomic(path, text.data, text.len, 0600, e);
    buf_fini(&text);
    return ok;
}
