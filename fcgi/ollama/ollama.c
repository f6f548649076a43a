/* ollama.h: the model's name, times and errors as all of Ollama's endpoints write them. */
#include "fcgi/ollama/ollama.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"

void ollama_error(struct buf *out, const struct request *r, const struct err *e)
{
    struct buf text = {0};
    bool names_field = e->field[0] && !r->error_override.context_tokens;
    buf_printf(&text, "%s%s%s", names_field ? e->field : "", names_field ? ": " : "", e->text);
    buf_puts(out, "{\"error\":");
    buf_json_string(out, text.data ? text.data : "", text.len);
    buf_putc(out, '}');
    buf_fini(&text);
}

bool ollama_name(const cJSON *body, const char **name, struct err *e)
{
    *name = NULL;
    return json_get_string(body, "model", name, e) &&
           (*name || json_get_string(body, "name", name, e));
}

bool ollama_model(struct request *r, const cJSON *body, struct err *e)
{
    const char *name;
    if (!ollama_name(body, &name, e))
        return false;
    struct err why = {0};
    if (!name || model_name_take(r, name, &why))
        return true;
    if (why.code == ERR_NOTFOUND)
        return err_set(e, ERR_NOTFOUND, "model '%.100s' not found", name);
    *e = why;
    return false;
}

void ollama_time(char out[OLLAMA_TIME_BYTES], int64_t wall_ms)
{
    char seconds[24] = "1970-01-01T00:00:00";
    time_t s = (time_t)(wall_ms / 1000);
    struct tm utc;
    if (gmtime_r(&s, &utc))
        strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out, OLLAMA_TIME_BYTES, "%s.%03dZ", seconds, (int)(wall_ms % 1000));
}

/* A stream is lines, whose readers stumble over an empty one as over half of one: nothing is cut.
 */
const struct api_dialect ollama_dialect = {
    .error = ollama_error,
    .stream_abort = {.error_event = "{\"error\":\"" DIALECT_ABORT_TEXT "\"}\n"},
};
