/* What the settings of each client must say to reach this server; docs/clients has the same for
 * people, and tests/clients runs the real programs with it. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/cli/launch/launch.h"

static bool text_done(const struct buf *out, struct err *e)
{
    return !out->failed || err_set(e, ERR_NOMEM, "out of memory");
}

/* ---- JSON: members are set, all others stay */

static cJSON *parse_old(const char *old, struct err *e)
{
    cJSON *o =
        old[strspn(old, " \t\r\n")] ? json_parse(old, strlen(old), NULL, e) : cJSON_CreateObject();
    if (o && !cJSON_IsObject(o)) {
        cJSON_Delete(o);
        err_set(e, ERR_FORMAT, "it holds no JSON object");
        return NULL;
    }
    return o;
}

static void set(cJSON *o, const char *name, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(o, name);
    cJSON_AddItemToObject(o, name, value);
}

static void set_text(cJSON *o, const char *name, const char *text)
{
    set(o, name, cJSON_CreateString(text));
}

/* The object of that name, made where there is none. */
static cJSON *child(cJSON *o, const char *name)
{
    cJSON *c = cJSON_GetObjectItemCaseSensitive(o, name);
    if (!cJSON_IsObject(c))
        set(o, name, c = cJSON_CreateObject());
    return c;
}

static bool print_json(cJSON *o, struct buf *out, struct err *e)
{
    char *text = cJSON_Print(o);
    bool ok = text && buf_puts(out, text) && buf_putc(out, '\n');
    cJSON_free(text);
    cJSON_Delete(o);
    return ok || err_set(e, ERR_NOMEM, "out of memory");
}

/* ---- Codex: responses */

static bool codex(const struct launch_server *s, const char *old, struct buf *out, struct err *e)
{
    static const char *const keys[] = {"model", "model_provider", "model_context_window", NULL};
    buf_puts(out, "model = ");
    buf_json_string(out, s->model, strlen(s->model));
    buf_printf(out,
               " " LAUNCH_MARK "\nmodel_provider = \"sluice\" " LAUNCH_MARK
               "\nmodel_context_window = %" PRId64 " " LAUNCH_MARK "\n",
               s->context);
    if (!launch_text_without(old, keys, '=', "[model_providers.sluice]", out, e))
        return false;
    while (buf_ends_with(out, '\n')) /* where our table was before, a blank line was left */
        out->data[--out->len] = '\0';
    buf_printf(out,
               "\n\n[model_providers.sluice]\nname = \"Sluice\"\nbase_url = \"%s/v1\"\n"
               "experimental_bearer_token = \"%s\"\nwire_api = \"responses\"\n",
               s->url, s->key);
    return text_done(out, e);
}

/* ---- Claude Code: Anthropic's messages */

static bool claude(const struct launch_server *s, const char *old, struct buf *out, struct err *e)
{
    static const char *const models[] = {
        "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL"};
    cJSON *o = parse_old(old, e);
    if (!o)
        return false;
    cJSON *env = child(o, "env");
    cJSON_DeleteItemFromObjectCaseSensitive(env, "ANTHROPIC_API_KEY");
    set_text(env, "ANTHROPIC_BASE_URL", s->url);
    set_text(env, "ANTHROPIC_AUTH_TOKEN", s->key);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        set_text(env, models[i], s->model);
    cJSON_DeleteItemFromObjectCaseSensitive(o, "model");
    return print_json(o, out, e);
}

/* ---- opencode: chat */

static bool opencode(const struct launch_server *s, const char *old, struct buf *out, struct err *e)
{
    struct buf name = {0}, base = {0};
    cJSON *o = parse_old(old, e);
    if (!o)
        return false;
    buf_printf(&name, "sluice/%s", s->model);
    buf_printf(&base, "%s/v1", s->url);
    if (name.failed || base.failed) {
        buf_fini(&name);
        buf_fini(&base);
        cJSON_Delete(o);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    if (!json_text(o, "$schema"))
        set_text(o, "$schema", "https://opencode.ai/config.json");
    set_text(o, "model", name.data);
    set_text(o, "small_model", name.data);
    cJSON *p = cJSON_CreateObject(), *model = cJSON_CreateObject();
    set_text(p, "npm", "@ai-sdk/openai-compatible");
    set_text(p, "name", "Sluice");
    set_text(child(p, "options"), "baseURL", base.data);
    set_text(child(p, "options"), "apiKey", s->key);
    set_text(model, "name", s->model);
    cJSON_AddBoolToObject(model, "reasoning", true);
    cJSON_AddBoolToObject(model, "tool_call", true);
    cJSON *limit = child(model, "limit");
    cJSON_AddNumberToObject(limit, "context", (double)s->context);
    cJSON_AddNumberToObject(limit, "output", (double)(s->context / 4));
    set(child(p, "models"), s->model, model);
    set(child(o, "provider"), "sluice", p);
    buf_fini(&name);
    buf_fini(&base);
    return print_json(o, out, e);
}

/* ---- aider: chat, by way of litellm, which wants to be told what the model can do */

static bool aider_conf(const struct launch_server *s, const char *old, struct buf *out,
                       struct err *e)
{
    static const char *const keys[] = {"model", "openai-api-base", "openai-api-key", NULL};
    if (!launch_text_without(old, keys, ':', NULL, out, e))
        return false;
    if (out->len && !buf_ends_with(out, '\n'))
        buf_putc(out, '\n');
    buf_printf(out,
               "model: \"openai/%s\" " LAUNCH_MARK "\nopenai-api-base: \"%s/v1\" " LAUNCH_MARK
               "\nopenai-api-key: %s " LAUNCH_MARK "\n",
               s->model, s->url, s->key);
    return text_done(out, e);
}

static bool aider_settings(const struct launch_server *s, const char *old, struct buf *out,
                           struct err *e)
{
    static const char *const keys[] = {NULL};
    if (!launch_text_without(old, keys, ':', NULL, out, e))
        return false;
    if (out->len && !buf_ends_with(out, '\n'))
        buf_putc(out, '\n');
    buf_printf(out,
               "- name: \"openai/%s\" " LAUNCH_MARK "\n  edit_format: diff " LAUNCH_MARK
               "\n  use_repo_map: true " LAUNCH_MARK
               "\n  weak_model_name: \"openai/%s\" " LAUNCH_MARK "\n",
               s->model, s->model);
    return text_done(out, e);
}

static bool aider_metadata(const struct launch_server *s, const char *old, struct buf *out,
                           struct err *e)
{
    struct buf name = {0};
    cJSON *o = parse_old(old, e);
    if (!o || !buf_printf(&name, "openai/%s", s->model)) {
        cJSON_Delete(o);
        return o ? err_set(e, ERR_NOMEM, "out of memory") : false;
    }
    cJSON *m = cJSON_CreateObject();
    set_text(m, "litellm_provider", "openai");
    set_text(m, "mode", "chat");
    cJSON_AddNumberToObject(m, "max_input_tokens", (double)s->context);
    cJSON_AddNumberToObject(m, "max_output_tokens", (double)s->context);
    cJSON_AddNumberToObject(m, "input_cost_per_token", 0);
    cJSON_AddNumberToObject(m, "output_cost_per_token", 0);
    set(o, name.data, m);
    buf_fini(&name);
    return print_json(o, out, e);
}

static const struct launch_client clients[] = {
    {"codex", "codex", "npm install -g @openai/codex", {{".codex/config.toml", codex}}},
    {"claude",
     "claude",
     "npm install -g @anthropic-ai/claude-code",
     {{".claude/settings.json", claude}}},
    {"opencode",
     "opencode",
     "npm install -g opencode-ai",
     {{".config/opencode/opencode.json", opencode}}},
    {"aider",
     "aider",
     "pipx install aider-chat",
     {{".aider.conf.yml", aider_conf},
      {".aider.model.settings.yml", aider_settings},
      {".aider.model.metadata.json", aider_metadata}}},
};

const struct launch_client *launch_client_find(const char *name)
{
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++)
        if (!strcmp(clients[i].name, name))
            return &clients[i];
    return NULL;
}

const char *launch_client_names(void)
{
    return "codex, claude, opencode, aider";
}
