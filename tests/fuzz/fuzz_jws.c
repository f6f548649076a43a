/* An ID token and a key set as a provider may send them: the first line is the token, the rest the
 * set. Whatever is taken gives claims, whatever is not gives a reason. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/oidc/jws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    const size_t len = end ? (size_t)(end - data) : size;
    char *token = malloc(len + 1);
    cJSON *claims = NULL, *set = NULL;
    struct err e = {0};
    if (!token)
        abort();
    memcpy(token, data, len);
    token[len] = '\0';
    if (end)
        set = json_parse((const char *)end + 1, size - len - 1,
                         &(struct json_limits){.max_depth = 32, .allow_duplicates = true}, NULL);
    const enum jws_answer answer = jws_verify(token, set, &claims, &e);
    if ((answer == JWS_GOOD) != (claims != NULL) || (answer != JWS_GOOD && !e.text[0]))
        abort();
    cJSON_Delete(claims);
    cJSON_Delete(set);
    free(token);
    return 0;
}
