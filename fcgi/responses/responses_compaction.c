/* responses.h: a compaction's text. OpenAI encrypts it; here it is the user's own conversation in
 * other words, so it is kept plain as base64, behind a digest that tells damage and other servers'
 * texts. */
#include <string.h>

#include "engine/base/utf8.h"
#include "fcgi/http/request.h"
#include "fcgi/responses/responses.h"
#include "sql/core/base64.h"
#include "sql/core/digest.h"

#define MARK "sluice-summary-1."
#define DIGEST_CHARS 16 /* of the SHA-256: it guards against damage, not against a forger */

static void digest_of(const void *data, size_t len, char out[DIGEST_TEXT_SIZE])
{
    struct digest d;
    digest_begin(&d);
    digest_add(&d, data, len);
    digest_end(&d, out);
}

void responses_compaction_write(struct buf *out, const char *summary, size_t len)
{
    char digest[DIGEST_TEXT_SIZE];
    digest_of(summary, len, digest);
    buf_printf(out, MARK "%.*s.", DIGEST_CHARS, digest);
    if (!buf_reserve(out, BASE64_CHARS(len)))
        return;
    base64_encode((const unsigned char *)summary, len, out->data + out->len, BASE64_CHARS(len));
    out->len += strlen(out->data + out->len);
}

const char *responses_compaction_read(struct request *r, const char *content)
{
    const size_t head = strlen(MARK) + DIGEST_CHARS + 1, len = strlen(content);
    char digest[DIGEST_TEXT_SIZE];
    size_t n = 0;
    if (len < head || strncmp(content, MARK, strlen(MARK)) || content[head - 1] != '.')
        return NULL;
    char *text = arena_alloc(r->arena, BASE64_BYTES(len - head) + 1);
    if (!text || !base64_decode(content + head, len - head, (unsigned char *)text,
                                BASE64_BYTES(len - head), &n))
        return NULL;
    digest_of(text, n, digest);
    if (strncmp(content + strlen(MARK), digest, DIGEST_CHARS) || memchr(text, '\0', n) ||
        utf8_valid((const unsigned char *)text, n) != n)
        return NULL;
    text[n] = '\0';
    return text;
}
