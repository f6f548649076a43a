/* llamacpp.h: the prompt of POST /infill. Models that were trained to fill in the middle have
 * tokens that mark the text before the gap, the text behind it and the gap; each family spells them
 * in its own way. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/llamacpp/llamacpp.h"
#include "fcgi/process/worker.h"

enum fim_mark { FIM_PREFIX, FIM_SUFFIX, FIM_MIDDLE, FIM_REPOSITORY, FIM_FILE, FIM__N };

#define MAX_SPELLINGS 6
static const char *const spellings[FIM__N][MAX_SPELLINGS] = {
    [FIM_PREFIX] = {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>",
                    "<\xEF\xBD\x9C"
                    "fim\xE2\x96\x81"
                    "begin\xEF\xBD\x9C>",
                    "\xE2\x96\x81<PRE>", "<|code_prefix|>"},
    [FIM_SUFFIX] = {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>",
                    "<\xEF\xBD\x9C"
                    "fim\xE2\x96\x81"
                    "hole\xEF\xBD\x9C>",
                    "\xE2\x96\x81<SUF>", "<|code_suffix|>"},
    [FIM_MIDDLE] = {"<|fim_middle|>", "<fim_middle>", "<fim-middle>",
                    "<\xEF\xBD\x9C"
                    "fim\xE2\x96\x81"
                    "end\xEF\xBD\x9C>",
                    "\xE2\x96\x81<MID>", "<|code_middle|>"},
    [FIM_REPOSITORY] = {"<|repo_name|>", "<|fim_repo|>", "<reponame>", "<fim-repo>", "<repo_name>"},
    [FIM_FILE] = {"<|file_sep|>", "<file_sep>"},
};

/* Only a whole token marks anything: a text that is spelled out in pieces is none. */
static int32_t find_mark(const struct vocab *v, enum fim_mark mark)
{
    for (int i = 0; i < MAX_SPELLINGS && spellings[mark][i]; i++) {
        int32_t id = vocab_find(v, spellings[mark][i], strlen(spellings[mark][i]));
        if (id >= 0 && vocab_flags(v, id) & VOCAB_ADDED)
            return id;
    }
    return -1;
}

struct infill {
    const char *prefix, *suffix, *prompt;
    const cJSON *extra;
    int32_t marks[FIM__N];
};

static bool check_extra(const cJSON *extra, struct err *e)
{
    const cJSON *file;
    const char *text;
    cJSON_ArrayForEach (file, extra) {
        text = NULL;
        const char *name = NULL;
        struct err why = {0};
        if (!cJSON_IsObject(file) || !json_get_string(file, "text", &text, &why) || !text ||
            !json_get_string(file, "filename", &name, &why))
            return err_field(e, ERR_INPUT, "input_extra",
                             "must be a list of {\"filename\": string, \"text\": string}");
    }
    return true;
}

static bool read_infill(struct infill *f, const cJSON *body, struct err *e)
{
    *f = (struct infill){.prompt = ""};
    if (!json_get_string(body, "input_prefix", &f->prefix, e) ||
        !json_get_string(body, "input_suffix", &f->suffix, e) ||
        !json_get_string(body, "prompt", &f->prompt, e) ||
        !json_get_array(body, "input_extra", &f->extra, e))
        return false;
    if (!f->prefix)
        return err_field(e, ERR_INPUT, "input_prefix", "is needed: the text before the gap");
    if (!f->suffix)
        return err_field(e, ERR_INPUT, "input_suffix", "is needed: the text behind the gap");
    return check_extra(f->extra, e);
}

static bool find_marks(struct infill *f, struct request *r, struct err *e)
{
    for (int i = 0; i < FIM__N; i++)
        f->marks[i] = find_mark(r->worker->text->vocab, (enum fim_mark)i);
    if (f->marks[FIM_PREFIX] >= 0 && f->marks[FIM_SUFFIX] >= 0 && f->marks[FIM_MIDDLE] >= 0)
        return true;
    r->error_override.status = 501;
    r->error_override.code = "not_implemented";
    return err_set(e, ERR_UNSUPPORTED,
                   "this model does not fill in the middle: its vocabulary has no token for%s%s%s",
                   f->marks[FIM_PREFIX] < 0 ? " prefix" : "",
                   f->marks[FIM_SUFFIX] < 0 ? " suffix" : "",
                   f->marks[FIM_MIDDLE] < 0 ? " middle" : "");
}

struct writer {
    const struct text_model *m;
    struct ids *out;
    struct err *e;
    bool ok;
};

static void put_mark(struct writer *w, int32_t id)
{
    if (w->ok && !ids_push(w->out, id))
        w->ok = err_set(w->e, ERR_NOMEM, "no memory for the prompt");
}

/* What stands in a file is text, marks that it spells included. */
static void put_text(struct writer *w, const char *text)
{
    w->ok =
        w->ok && tokenizer_encode(w->m->tokenizer,
                                  &(struct tokenizer_input){
                                      .text = text, .len = strlen(text), .mode = TOKENIZE_PLAIN},
                                  w->out, w->e);
}

static void put_name(struct writer *w, const char *name)
{
    put_text(w, name);
    put_text(w, "\n");
}

/* The other files, as models with marks for them were trained; else before the prefix, each under a
 * line of its own. */
static void put_extra(struct writer *w, const struct infill *f)
{
    const cJSON *file;
    const bool marked = f->marks[FIM_FILE] >= 0;
    if (cJSON_GetArraySize(f->extra) == 0)
        return;
    if (marked && f->marks[FIM_REPOSITORY] >= 0) {
        put_mark(w, f->marks[FIM_REPOSITORY]);
        put_name(w, "project");
    }
    cJSON_ArrayForEach (file, f->extra) {
        const cJSON *name = json_member(file, "filename");
        if (marked) {
            put_mark(w, f->marks[FIM_FILE]);
            put_name(w, name ? name->valuestring : "file");
        } else {
            put_text(w, "\n\n--- snippet ---\n\n");
        }
        put_text(w, json_member(file, "text")->valuestring);
    }
    if (marked) {
        put_mark(w, f->marks[FIM_FILE]);
        put_name(w, "filename");
    }
}

bool llamacpp_infill_prompt(struct request *r, const cJSON *body, struct ids *out, struct err *e)
{
    struct infill f;
    if (!read_infill(&f, body, e) || !find_marks(&f, r, e))
        return false;
    struct writer w = {.m = r->worker->text, .out = out, .e = e, .ok = true};
    put_extra(&w, &f);
    put_mark(&w, f.marks[FIM_PREFIX]);
    put_text(&w, f.prefix);
    put_text(
        &w,
        f.prompt); /* editors send the line's beginning here: it continues where the prefix ends */
    put_mark(&w, f.marks[FIM_SUFFIX]);
    put_text(&w, f.suffix);
    put_mark(&w, f.marks[FIM_MIDDLE]);
    return w.ok;
}
