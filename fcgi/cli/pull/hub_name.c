/* Takes a hub's name apart. */
#include "fcgi/cli/pull/hub_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *behind_prefix(const char *text)
{
    static const char *const prefixes[] = {"https://huggingface.co/", "huggingface.co/",
                                           "https://hf.co/", "hf.co/", "hf:"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (!strncasecmp(text, prefixes[i], strlen(prefixes[i])))
            return text + strlen(prefixes[i]);
    return NULL;
}

bool hub_name_is(const char *text)
{
    return behind_prefix(text) != NULL;
}

bool hub_name_parse(const char *text, struct hub_name *out, struct err *e)
{
    char repo[2 * PULL_REPO_SIZE];
    const char *rest = behind_prefix(text), *colon = rest ? strchr(rest, ':') : NULL;
    size_t n = colon ? (size_t)(colon - rest) : rest ? strlen(rest) : 0;
    *out = (struct hub_name){0};
    if (!rest || n >= sizeof repo)
        return err_set(e, ERR_INPUT, "'%.100s' is no hub's name; one is hf.co/USER/REPO:Q4_K_M",
                       text);
    memcpy(repo, rest, n);
    repo[n] = 0;
    if (!pull_repo_split(repo, &out->repo, e))
        return false;
    if (!strchr(out->repo.repo, '/'))
        return err_set(e, ERR_INPUT, "'%.100s' lacks the user; a hub's name is hf.co/USER/REPO",
                       text);
    for (const char *c = colon ? colon + 1 : ""; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return err_set(e, ERR_INPUT, "'%.60s' is no quantization; one is Q4_K_M", colon + 1);
    if (colon && (!colon[1] || strlen(colon + 1) >= sizeof out->quant))
        return err_set(e, ERR_INPUT, "behind ':' stands a quantization such as Q4_K_M");
    snprintf(out->quant, sizeof out->quant, "%s", colon ? colon + 1 : "");
    snprintf(out->folder, sizeof out->folder, out->quant[0] ? "%s-%s" : "%s", out->repo.name,
             out->quant);
    return true;
}
