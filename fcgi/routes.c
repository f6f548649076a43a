/* The map of the API: the tables of all rooms, and the dialects that their clients speak. */
#include "fcgi/anthropic/anthropic.h"
#include "fcgi/http/dialect.h"
#include "fcgi/http/route.h"
#include "fcgi/llamacpp/llamacpp.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/responses/responses.h"

/* One row for each api_<noun>.c. */
#define TABLES(X)                                                                                  \
    X(chat)                                                                                        \
    X(completions)                                                                                 \
    X(llamacpp)                                                                                    \
    X(props)                                                                                       \
    X(messages)                                                                                    \
    X(responses)                                                                                   \
    X(openai_conversations)                                                                        \
    X(ollama)                                                                                      \
    X(ollama_models)                                                                               \
    X(ollama_pull)                                                                                 \
    X(ollama_embed)                                                                                \
    X(embeddings)                                                                                  \
    X(rerank)                                                                                      \
    X(models)                                                                                      \
    X(text)                                                                                        \
    X(tokenizer)                                                                                   \
    X(health)                                                                                      \
    X(metrics)                                                                                     \
    X(auth)                                                                                        \
    X(confirm)                                                                                     \
    X(passkey_login)                                                                               \
    X(passkeys)                                                                                    \
    X(keys)                                                                                        \
    X(users)                                                                                       \
    X(groups)                                                                                      \
    X(sign_up)                                                                                     \
    X(sessions)                                                                                    \
    X(factor)                                                                                      \
    X(account)                                                                                     \
    X(oidc)                                                                                        \
    X(audit)                                                                                       \
    X(openapi)                                                                                     \
    X(usage)                                                                                       \
    X(admin)                                                                                       \
    X(admin_jobs)                                                                                  \
    X(admin_models)                                                                                \
    X(admin_search)                                                                                \
    X(upstreams)                                                                                   \
    X(registry)                                                                                    \
    X(local_models)                                                                                \
    X(log)                                                                                         \
    X(history)                                                                                     \
    X(admin_checks)                                                                                \
    X(settings)                                                                                    \
    X(preferences)                                                                                 \
    X(library)                                                                                     \
    X(changes)                                                                                     \
    X(import)                                                                                      \
    X(conversations)                                                                               \
    X(prompt_cache)                                                                                \
    X(attachments)                                                                                 \
    X(projects)                                                                                    \
    X(project_shares)                                                                              \
    X(tool_servers)                                                                                \
    X(tool_groups)                                                                                 \
    X(tool_sign_in)                                                                                \
    X(tool_runs)                                                                                   \
    X(shares)                                                                                      \
    X(export)

#define DECLARE(noun) extern const struct route api_##noun##_routes[];
TABLES(DECLARE)
#undef DECLARE

const struct route *const route_tables[] = {
#define ROW(noun) api_##noun##_routes,
    TABLES(ROW)
#undef ROW
        NULL};

const struct api_dialect *const api_dialects[] = {&dialect_default,   &responses_dialect,
                                                  &anthropic_dialect, &llamacpp_dialect,
                                                  &ollama_dialect,    NULL};
