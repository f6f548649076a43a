/* ollama.h: the served model in Ollama's words. What Ollama has and this server does not know is
 * left out. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/wire/status.h"
#include "fcgi/admin/local_models.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/prompt.h"
#include "fcgi/inference/settings.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/process/worker.h"
#include "sql/models/store_models.h"

void ollama_facts_name(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s%s", name, strchr(name, ':') ? "" : ":latest");
}

/* "35.1B" */
static void add_count(cJSON *o, const char *name, uint64_t n)
{
    static const struct {
        double from;
        char letter;
    } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    char text[32] = "";
    for (size_t i = 0; i < sizeof units / sizeof units[0] && !text[0]; i++)
        if ((double)n >= units[i].from)
            snprintf(text, sizeof text, "%.1f%c", (double)n / units[i].from, units[i].letter);
    cJSON_AddStringToObject(o, name, text);
}

/* Bytes of all parts in one format. */
static uint64_t bytes_in(const struct status_page *page, const char *format)
{
    uint64_t sum = 0;
    for (int i = 0; i < STATUS_PARTS; i++)
        for (int k = 0; k < STATUS_PART_FORMATS; k++)
            sum += strcmp(page->parts[i].formats[k].text, format) ? 0
                                                                  : page->parts[i].formats[k].bytes;
    return sum;
}

/* The format that most of the weights' bytes have; "": none is known. */
static const char *main_format(const struct status_page *page)
{
    const char *best = "";
    for (int i = 0; i < STATUS_PARTS; i++)
        for (int k = 0; k < STATUS_PART_FORMATS; k++) {
            const char *format = page->parts[i].formats[k].text;
            if (*format && (!*best || bytes_in(page, format) > bytes_in(page, best)))
                best = format;
        }
    return best;
}

static void add_details(cJSON *o, const struct status_page *page, const char *format)
{
    cJSON *d = cJSON_AddObjectToObject(o, "details");
    cJSON_AddStringToObject(d, "parent_model", "");
    cJSON_AddStringToObject(d, "format", format);
    cJSON_AddStringToObject(d, "family", page->family);
    cJSON *families = cJSON_AddArrayToObject(d, "families");
    if (page->family[0])
        cJSON_AddItemToArray(families, cJSON_CreateString(page->family));
    add_count(d, "parameter_size", page->parameters);
    cJSON_AddStringToObject(d, "quantization_level", main_format(page));
}

/* The files on the disk: {bytes, format ...}; NULL: they can't be read. The caller owns it. */
static cJSON *read_files(const struct request *r)
{
    cJSON *list = cJSON_CreateArray();
    local_models_add(r->worker->model_path, list);
    cJSON *files = cJSON_DetachItemFromArray(list, 0);
    cJSON_Delete(list);
    return files;
}

static const char *format_of(const cJSON *files)
{
    const char *format = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(files, "format"));
    return format ? format : "";
}

static void add_modified(cJSON *o, const struct request *r)
{
    char text[OLLAMA_TIME_BYTES];
    ollama_time(text, r->worker->model_created * 1000);
    cJSON_AddStringToObject(o, "modified_at", text);
}

cJSON *ollama_facts_entry(const struct request *r, const struct status_page *page)
{
    char full[160], digest[24];
    cJSON *files = read_files(r), *o = cJSON_CreateObject();
    const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(files, "bytes");
    ollama_facts_name(full, sizeof full, r->worker->model_id);
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)page->model_fingerprint);
    cJSON_AddStringToObject(o, "name", full);
    cJSON_AddStringToObject(o, "model", full);
    add_modified(o, r);
    cJSON_AddNumberToObject(o, "size", bytes ? bytes->valuedouble : 0);
    if (page->model_fingerprint) /* the engine has told */
        cJSON_AddStringToObject(o, "digest", digest);
    add_details(o, page, format_of(files));
    cJSON_Delete(files);
    return o;
}

/* What a request begins with, a line each, as a Modelfile has it. */
static void put_parameters(struct buf *b, const struct request *r, const char *before)
{
    struct settings s;
    settings_begin(&s, r);
    const struct engine_sampling *p = &s.sampling;
    buf_printf(b, "%stemperature %.7g\n%stop_p %.7g\n%stop_k %d\n", before, (double)p->temperature,
               before, (double)p->top_p, before, p->top_k);
    buf_printf(b, "%smin_p %.7g\n%srepeat_penalty %.7g\n", before, (double)p->min_p, before,
               (double)p->repetition_penalty);
}

static void add_text(cJSON *o, const char *name, const struct buf *b)
{
    cJSON_AddStringToObject(o, name, b->data && !b->failed ? b->data : "");
}

/* Keys as a GGUF file has them, with the served context: what a prompt and its answer may have. */
static void add_info(cJSON *o, const struct request *r, const struct status_page *page)
{
    const char *family = page->family[0] ? page->family : "unknown";
    const struct {
        const char *name;
        double n;
    } rows[] = {{"context_length", page->n_ctx ? page->n_ctx : r->worker->text->n_ctx},
                {"block_count", page->n_layer},
                {"vocab_size", page->n_vocab}};
    cJSON *info = cJSON_AddObjectToObject(o, "model_info");
    cJSON_AddStringToObject(info, "general.architecture", family);
    cJSON_AddStringToObject(info, "general.basename", r->worker->model_id);
    cJSON_AddNumberToObject(info, "general.parameter_count", (double)page->parameters);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s.%s", family, rows[i].name);
        cJSON_AddNumberToObject(info, name, rows[i].n);
    }
}

static void add_capabilities(cJSON *o, const struct request *r)
{
    const struct chat_template *t = r->worker->text->chat_template;
    cJSON *list = cJSON_AddArrayToObject(o, "capabilities");
    cJSON_AddItemToArray(list, cJSON_CreateString("completion"));
    if (prompt_takes_tools(r))
        cJSON_AddItemToArray(list, cJSON_CreateString("tools"));
    if (t && chat_template_traits(t)->thinking)
        cJSON_AddItemToArray(list, cJSON_CreateString("thinking"));
}

cJSON *ollama_facts_show(const struct request *r, const struct status_page *page)
{
    const struct chat_template *t = r->worker->text->chat_template;
    struct buf parameters = {0}, modelfile = {0};
    cJSON *files = read_files(r), *o = cJSON_CreateObject();
    put_parameters(&parameters, r, "");
    buf_printf(&modelfile, "FROM %s\n", r->worker->model_id);
    put_parameters(&modelfile, r, "PARAMETER ");
    add_text(o, "modelfile", &modelfile);
    add_text(o, "parameters", &parameters);
    cJSON_AddStringToObject(o, "template", t ? chat_template_source(t) : "");
    add_details(o, page, format_of(files));
    add_info(o, r, page);
    add_capabilities(o, r);
    add_modified(o, r);
    buf_fini(&parameters);
    buf_fini(&modelfile);
    cJSON_Delete(files);
    return o;
}

cJSON *ollama_facts_relayed(const struct store_model *m)
{
    char modified[OLLAMA_TIME_BYTES];
    cJSON *o = cJSON_CreateObject(), *info, *list;
    ollama_time(modified, m->created_at);
    cJSON_AddStringToObject(o, "modelfile", "");
    cJSON_AddStringToObject(o, "parameters", "");
    cJSON_AddStringToObject(o, "template", "");
    cJSON_AddObjectToObject(o, "details");
    info = cJSON_AddObjectToObject(o, "model_info");
    cJSON_AddStringToObject(info, "general.basename", m->name);
    if (m->context)
        cJSON_AddNumberToObject(info, "relayed.context_length", (double)m->context);
    list = cJSON_AddArrayToObject(o, "capabilities");
    cJSON_AddItemToArray(list, cJSON_CreateString("completion"));
    if (m->tools)
        cJSON_AddItemToArray(list, cJSON_CreateString("tools"));
    if (m->vision)
        cJSON_AddItemToArray(list, cJSON_CreateString("vision"));
    if (m->reasoning)
        cJSON_AddItemToArray(list, cJSON_CreateString("thinking"));
    cJSON_AddStringToObject(o, "modified_at", modified);
    return o;
}
