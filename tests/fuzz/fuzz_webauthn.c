/* A passkey as a browser may send it: CBOR, which is looked at before libcbor is given it, inside
 * of authenticator data for this site. The first byte says which of them the rest is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fcgi/webauthn/webauthn.h"
#include "sql/core/digest.h"

#define HEAD                                                                                       \
    55 /* of authenticator data with a credential that has no id: hash, flags, counter, AAGUID,    \
          length */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char client[] = "{\"type\":\"webauthn.create\",\"challenge\":\"x\","
                             "\"origin\":\"https://chat.example.org\",\"crossOrigin\":false}";

/* What is taken is a key that fits; what is not has a reason. */
static void check_register(struct webauthn_bytes auth_data)
{
    static struct webauthn_site site;
    struct webauthn_credential c;
    struct err e = {0};
    if (!site.rp_id[0] && !webauthn_site_of("https://chat.example.org", &site, &e))
        abort();
    const struct webauthn_registration r = {
        .client_data = {(const unsigned char *)client, sizeof client - 1}, .auth_data = auth_data};
    if (webauthn_register(&site, &r, &c, &e)
            ? !c.id_len || c.id_len > WEBAUTHN_ID_MAX || c.public_key_len > WEBAUTHN_KEY_MAX
            : !e.text[0])
        abort();
}

/* SHA-256 of "chat.example.org", and that a user was there, proved it and made a credential. */
static void check_key(const uint8_t *data, size_t size)
{
    const size_t id = size < 16 ? size : 16;
    struct digest d;
    char hex[DIGEST_TEXT_SIZE];
    unsigned char *all = calloc(1, HEAD + size);
    if (!all)
        abort();
    digest_begin(&d);
    digest_add(&d, "chat.example.org", 16);
    digest_end(&d, hex);
    for (int i = 0; i < 32; i++)
        all[i] = (unsigned char)strtoul((const char[]){hex[2 * i], hex[2 * i + 1], 0}, NULL, 16);
    all[32] = 0x45;
    all[HEAD - 1] = (unsigned char)id;
    memcpy(all + HEAD, data, size);
    check_register((struct webauthn_bytes){all, HEAD + size});
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const struct webauthn_bytes rest = {data + 1, size - 1};
    char challenge[WEBAUTHN_CHALLENGE_SIZE];
    struct err e = {0};
    switch (data[0] % 3) {
    case 0:
        webauthn_cbor_is_small(rest);
        check_key(rest.data, rest.len);
        break;
    case 1:
        check_register(rest);
        break;
    default:
        if (!webauthn_challenge(rest, challenge, &e) && !e.text[0])
            abort();
    }
    return 0;
}
