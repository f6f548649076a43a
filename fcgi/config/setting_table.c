/* Each setting of the server: name, kind, bounds, and what it is without a row. */
#include "fcgi/config/setting_table.h"

#include <stddef.h>

#include "sql/users/store_users.h"

#define MAX_TOKENS 16777216
#define MAX_UPLOAD 33554432 /* nginx takes no larger body: nginx/server.conf.in */

const struct setting_row setting_rows[SETTING__N] = {
    [SETTING_BANNER] = {"banner", "page", SETTING_TYPE_TEXT, "\"\"", 0, 500, NULL, NULL, false,
                        "a line of text over everyone's chat; empty: none"},
    [SETTING_BANNER_LEVEL] = {"banner_level", "page", SETTING_TYPE_CHOICE, "\"info\"", 0, 0,
                              "info|warning", NULL, false, "how the banner looks"},
    [SETTING_SUGGESTIONS] =
        {"suggestions", "page", SETTING_TYPE_TEXT, "\"\"", 0, SETTING_TEXT_BYTES, NULL, NULL, false,
         "first messages that an empty chat offers, with | between them, the first eight; empty: "
         "the page's own"},
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
        {"user_tokens_per_day", "accounts", SETTING_TYPE_INT, "100000000", 0, 1e12, NULL, "tokens",
         false,
         "what a user without limits of their own may use in a day (UTC), prompts and answers; "
         "0: no limit"},
    [SETTING_USER_STORAGE_BYTES] =
        {"user_storage_bytes", "accounts", SETTING_TYPE_INT, "34359738368", 0, 1e15, NULL, "bytes",
         false, "texts and files that a user without limits of their own may keep; 0: no limit"},
    [SETTING_USER_PROMPT_CACHE_BYTES] =
        {"user_prompt_cache_bytes", "accounts", SETTING_TYPE_INT, "0", 0, 1e15, NULL, "bytes",
         false,
         "of the prompt cache on disk that one user may take; 0: no limit, but when its space is "
         "used up, whoever takes the most gives way first"},
    [SETTING_PROMPT_CACHE_SEAL] = {"prompt_cache_seal", "accounts", SETTING_TYPE_BOOL, "false", 0,
                                   0, NULL, NULL, false,
                                   "what the prompt cache keeps on disk is sealed with a key for "
                                   "each user, and can't be read "
                                   "any more once that is gone; a change empties the cache"},
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
    [SETTING_METRICS_OPEN] =
        {"metrics_open", "limits", SETTING_TYPE_BOOL, "false", 0, 0, NULL, NULL, false,
         "anyone who reaches the server may read /metrics and /load; when off, only admins and "
         "their keys with the scope metrics or admin"},
    [SETTING_GENERIC_TOOL_PROMPT] =
        {"generic_tool_prompt", "api", SETTING_TYPE_BOOL, "true", 0, 0, NULL, NULL, false,
         "a model whose template shows no tools is told of them in the system message; when off, "
         "requests with tools are refused there"},
    [SETTING_MODEL_ALIASES] =
        {"model_aliases", "api", SETTING_TYPE_TEXT, "\"\"", 0, SETTING_TEXT_BYTES, NULL, NULL,
         false,
         "names that also mean the served model, separated by blanks: sonnet gpt-4o claude-*; "
         "* is any name"},
    [SETTING_MODEL_WAIT_SECONDS] = {"model_wait_seconds", "api", SETTING_TYPE_INT, "120", 0, 3000,
                                    NULL, "s", false,
                                    "how long a request waits for a model of this machine that has "
                                    "to be loaded first; then it is told to come again"},
    [SETTING_KEYS_OPTIONAL_ON_LOOPBACK] =
        {"keys_optional_on_loopback", "api", SETTING_TYPE_TEXT, "\"\"", 0, STORE_NAME_MAX * 4, NULL,
         NULL, false,
         "name of the user as whom API requests without a key are answered when they come "
         "from this machine; empty: every request needs a key"},
    [SETTING_CONFIRM_MINUTES] =
        {"confirm_minutes", "accounts", SETTING_TYPE_INT, "15", 0, 1440, NULL, "minutes", false,
         "new keys, users and what else matters ask for the password, a code or a passkey again "
         "when the last time is longer ago; 0: each time"},
    [SETTING_STRICT_PARAMETERS] =
        {"strict_parameters", "api", SETTING_TYPE_BOOL, "false", 0, 0, NULL, NULL, false,
         "API requests with a parameter that has no effect here are refused; when off, their "
         "answers name it"},
    [SETTING_PASSKEYS] = {"passkeys", "accounts", SETTING_TYPE_BOOL, "false", 0, 0, NULL, NULL,
                          false, "users may register passkeys and log in by them"},
    [SETTING_PASSKEY_ORIGIN] = {"passkey_origin", "accounts", SETTING_TYPE_TEXT, "\"\"", 0, 280,
                                NULL, NULL, false,
                                "origin of the page for passkeys, such as "
                                "https://chat.example.org; empty: scheme and host "
                                "of each request"},
    [SETTING_OIDC_POLICY] = {"oidc_policy", "sign_in", SETTING_TYPE_CHOICE, "\"off\"", 0, 0,
                             "off|link|create", NULL, false,
                             "sign-in by an OpenID provider: off, for accounts that were linked, "
                             "or it makes accounts too; needs oidc_issuer and oidc_client_id"},
    [SETTING_OIDC_ISSUER] = {"oidc_issuer", "sign_in", SETTING_TYPE_TEXT, "\"\"", 0, 500, NULL,
                             NULL, false, "the provider's issuer, as its own documents write it"},
    [SETTING_OIDC_CLIENT_ID] = {"oidc_client_id", "sign_in", SETTING_TYPE_TEXT, "\"\"", 0, 500,
                                NULL, NULL, false, "what the provider knows this server by"},
    [SETTING_OIDC_CLIENT_SECRET] =
        {"oidc_client_secret", "sign_in", SETTING_TYPE_SECRET, "\"\"", 0, SETTING_SECRET_BYTES,
         NULL, NULL, false, "the provider's secret for this server; empty: a public client"},
    [SETTING_OIDC_NAME] = {"oidc_name", "sign_in", SETTING_TYPE_TEXT, "\"\"", 0, 60, NULL, NULL,
                           false, "what the button calls the provider; empty: its host"},
    [SETTING_OIDC_SCOPES] = {"oidc_scopes", "sign_in", SETTING_TYPE_TEXT,
                             "\"openid profile email\"", 0, 300, NULL, NULL, false,
                             "what the provider is asked for"},
    [SETTING_OIDC_EMAIL_DOMAINS] =
        {"oidc_email_domains", "sign_in", SETTING_TYPE_TEXT, "\"\"", 0, SETTING_TEXT_BYTES, NULL,
         NULL, false,
         "who gets an account: those with a verified e-mail address in one of these "
         "domains, separated by blanks; empty: everyone whom the provider lets in"},
    [SETTING_OIDC_GROUPS_CLAIM] = {"oidc_groups_claim", "sign_in", SETTING_TYPE_TEXT, "\"\"", 0,
                                   200, NULL, NULL, false,
                                   "claim that names a user's groups, such as groups: each sign-in "
                                   "puts them into those groups here and out of others it put "
                                   "them into; empty: groups are made by hand alone"},
    [SETTING_OIDC_PUBLIC_URL] =
        {"oidc_public_url", "sign_in", SETTING_TYPE_TEXT, "\"\"", 0, 200, NULL, NULL, false,
         "where people open this server, https://chat.example.org; empty: as the browser says"},
    [SETTING_OIDC_SECOND_FACTOR] = {"oidc_second_factor", "sign_in", SETTING_TYPE_BOOL, "false", 0,
                                    0, NULL, NULL, false,
                                    "users with a second factor here are asked for it as well"},
    [SETTING_TOOL_SERVERS] =
        {"tool_servers", "tools", SETTING_TYPE_CHOICE, "\"admin\"", 0, 0, "off|admin|users", NULL,
         false,
         "whose tool servers chats may use: nobody's, those that admins add for everyone, users' "
         "own too"},
    [SETTING_TOOL_SERVERS_PRIVATE] =
        {"tool_servers_private", "tools", SETTING_TYPE_BOOL, "false", 0, 0, NULL, NULL, false,
         "users' own tool servers may lie on this machine or in a private network"},
    [SETTING_TOOL_CALL_SECONDS] = {"tool_call_seconds", "tools", SETTING_TYPE_INT, "60", 1, 100,
                                   NULL, "seconds", false, "how long one call of a tool may take"},
    [SETTING_TOOL_ROUNDS] =
        {"tool_rounds", "tools", SETTING_TYPE_INT, "10", 1, 1000, NULL, NULL, false,
         "answers in a row that may call tools that always run, before the user is asked again"},
    [SETTING_TOOL_RESULT_BYTES] =
        {"tool_result_bytes", "tools", SETTING_TYPE_INT, "32768", 256, 1048576, NULL, "bytes",
         false, "what the model reads of one tool's result; the rest is cut off"},
};

/* What keeps people out, and what tells afterwards who was in. */
const bool setting_guarded[SETTING__N] = {
    [SETTING_SIGN_UP] = true,
    [SETTING_USER_TOKENS_PER_DAY] = true,
    [SETTING_USER_STORAGE_BYTES] = true,
    [SETTING_USER_MAX_JOBS] = true,
    [SETTING_USER_PROMPT_CACHE_BYTES] = true,
    [SETTING_PROMPT_CACHE_SEAL] = true,
    [SETTING_SHARE_LINKS] = true,
    [SETTING_AUDIT_DAYS] = true,
    [SETTING_KEYS_OPTIONAL_ON_LOOPBACK] = true,
    [SETTING_CONFIRM_MINUTES] = true,
    [SETTING_PASSKEYS] = true,
    [SETTING_PASSKEY_ORIGIN] = true,
    [SETTING_METRICS_OPEN] = true,
    [SETTING_OIDC_POLICY] = true,
    [SETTING_OIDC_ISSUER] = true,
    [SETTING_OIDC_CLIENT_ID] = true,
    [SETTING_OIDC_CLIENT_SECRET] = true,
    [SETTING_OIDC_EMAIL_DOMAINS] = true,
    [SETTING_OIDC_PUBLIC_URL] = true,
    [SETTING_OIDC_SECOND_FACTOR] = true,
    [SETTING_TOOL_SERVERS] = true,
    [SETTING_TOOL_SERVERS_PRIVATE] = true,
};

const struct setting_row *setting_row(enum server_setting which)
{
    return &setting_rows[which];
}
