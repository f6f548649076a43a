/* See pooling.h. An encoder whose files say nothing pools by the mean, as sentence-transformers
 * does; a decoder whose files say nothing was never trained to embed. */
#include "engine/model/pooling.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"

#define MAX_JSON (1 << 20)

const char *pooling_name(enum pooling pooling)
{
    static const char *const names[] = {[POOLING_NONE] = "none",
                                        [POOLING_MEAN] = "mean",
                                        [POOLING_CLS] = "cls",
                                        [POOLING_LAST] = "last"};
    return names[pooling];
}

static bool read_gguf(struct config *c, struct model_plan *p, struct err *e)
{
    enum { GGUF_MEAN = 1, GGUF_CLS, GGUF_LAST, GGUF_RANK };
    int32_t type = config_int(c, key_or(NULL, "pooling_type", -1, 64, 0));
    if (type < 0 || type > GGUF_RANK)
        return err_set(e, ERR_UNSUPPORTED, "pooling_type %d is not known", type);
    if (type == GGUF_MEAN)
        p->pooling = POOLING_MEAN;
    else if (type == GGUF_CLS || (type == GGUF_RANK && p->encoder))
        p->pooling = POOLING_CLS;
    else if (type)
        p->pooling = POOLING_LAST;
    return true;
}

/* "1_Pooling/config.json": which mode is on. Older files have one switch for each mode. */
static bool read_modes(const cJSON *root, struct model_plan *p, struct err *e)
{
    static const struct {
        const char *key, *word;
        enum pooling pooling;
    } modes[] = {{"pooling_mode_cls_token", "cls", POOLING_CLS},
                 {"pooling_mode_mean_tokens", "mean", POOLING_MEAN},
                 {"pooling_mode_lasttoken", "lasttoken", POOLING_LAST}};
    const cJSON *word = json_member(root, "pooling_mode");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (cJSON_IsTrue(json_member(root, modes[i].key)) ||
            (cJSON_IsString(word) && !strcmp(word->valuestring, modes[i].word))) {
            p->pooling = modes[i].pooling;
            return true;
        }
    return err_set(e, ERR_UNSUPPORTED,
                   "1_Pooling/config.json: only the modes cls, mean and last token are read");
}

/* Modules beside transformer, pooling and normalizing would change the vectors. */
static bool check_modules(const cJSON *root, struct err *e)
{
    static const char *const known[] = {"Transformer", "Pooling", "Normalize"};
    const cJSON *one;
    cJSON_ArrayForEach (one, root) {
        const cJSON *type = json_member(one, "type");
        const char *name = cJSON_IsString(type) ? type->valuestring : "(none)";
        const char *last = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || !strcmp(last, known[i]);
        if (!found)
            return err_set(e, ERR_UNSUPPORTED, "modules.json: the module '%.60s' is not read",
                           name);
    }
    return true;
}

/* A folder without the file that its modules name would be pooled in another way than it was
 * trained.
 */
static bool check_pooled(const cJSON *modules, struct err *e)
{
    const cJSON *one;
    cJSON_ArrayForEach (one, modules) {
        const cJSON *path = json_member(one, "path");
        if (cJSON_IsString(path) && !strcmp(path->valuestring, "1_Pooling"))
            return err_set(e, ERR_FORMAT,
                           "modules.json names 1_Pooling, whose config.json is missing");
    }
    return true;
}

/* An optional file: *root stays NULL when it isn't there. */
static bool read_file(const char *folder, const char *name, cJSON **root, struct err *e)
{
    char path[4096];
    if (!file_join(path, sizeof path, folder, name, e))
        return false;
    if (!file_exists(path))
        return true;
    *root = json_parse_file(path, MAX_JSON, e);
    return *root != NULL;
}

static bool read_folder(const char *folder, struct model_plan *p, struct err *e)
{
    cJSON *modules = NULL, *modes = NULL;
    bool ok = read_file(folder, "modules.json", &modules, e) && check_modules(modules, e) &&
              read_file(folder, "1_Pooling/config.json", &modes, e) &&
              (modes ? read_modes(modes, p, e) : check_pooled(modules, e));
    cJSON_Delete(modules);
    cJSON_Delete(modes);
    return ok;
}

bool pooling_read(struct config *c, const char *folder, struct model_plan *p, struct err *e)
{
    if (!(c->gguf ? read_gguf(c, p, e) : read_folder(folder, p, e)))
        return false;
    if (p->encoder && p->pooling == POOLING_NONE)
        p->pooling = p->scorer.out.type == WEIGHT_NONE ? POOLING_MEAN : POOLING_CLS;
    return true;
}
