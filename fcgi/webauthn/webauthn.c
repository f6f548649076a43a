/* webauthn.h: authenticator data and signatures, by libfido2. Of the authenticator data the head is
 * of fixed form (37 bytes) and compared here, so that a refusal can say what was wrong; libfido2
 * then compares it again. */
#include "fcgi/webauthn/webauthn.h"

#include <fido.h>
#include <fido/eddsa.h>
#include <fido/es256.h>
#include <fido/rs256.h>
#include <pthread.h>
#include <string.h>

#include "sql/core/digest.h"

#define HEAD_BYTES 37 /* rpIdHash 32, flags 1, counter 4 */
#define HASH_BYTES 32
#define ID_PLACE                                                                                   \
    55 /* of a new credential's id: after the head, a name of 16 bytes and its length */
#define AUTH_DATA_MAX 8192
#define SIGNATURE_MAX 1024

enum { FLAG_PRESENT = 0x01, FLAG_VERIFIED = 0x04, FLAG_CREDENTIAL = 0x40, FLAG_EXTENSIONS = 0x80 };

static const int algorithms[] = {COSE_ES256, COSE_EDDSA, COSE_RS256};
enum { N_ALGORITHMS = sizeof algorithms / sizeof algorithms[0] };

static void start_library(void)
{
    fido_init(0);
}

static void use_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_library);
}

static void hash_hex(const char *text, char out[DIGEST_TEXT_SIZE])
{
    struct digest d;
    digest_begin(&d);
    digest_add(&d, text, strlen(text));
    digest_end(&d, out);
}

static bool is_hash_of(const unsigned char hash[HASH_BYTES], const char *text)
{
    static const char digits[] = "0123456789abcdef";
    char want[DIGEST_TEXT_SIZE];
    hash_hex(text, want);
    for (size_t i = 0; i < HASH_BYTES; i++)
        if (want[2 * i] != digits[hash[i] >> 4] || want[2 * i + 1] != digits[hash[i] & 15])
            return false;
    return true;
}

static bool check_head(const struct webauthn_site *site, struct webauthn_bytes d, uint32_t *counter,
                       struct err *e)
{
    if (d.len < HEAD_BYTES || d.len > AUTH_DATA_MAX)
        return err_field(e, ERR_INPUT, "authenticatorData", "has %zu bytes, from %d to %d belong",
                         d.len, HEAD_BYTES, AUTH_DATA_MAX);
    const unsigned char flags = d.data[HASH_BYTES], *n = d.data + HASH_BYTES + 1;
    if (!is_hash_of(d.data, site->rp_id))
        return err_field(e, ERR_INPUT, "authenticatorData", "was made for another site than %s",
                         site->rp_id);
    if (!(flags & FLAG_PRESENT) || !(flags & FLAG_VERIFIED))
        return err_field(e, ERR_INPUT, "authenticatorData",
                         "says that the authenticator did not verify its user");
    *counter = (uint32_t)n[0] << 24 | (uint32_t)n[1] << 16 | (uint32_t)n[2] << 8 | n[3];
    return true;
}

/* libfido2 takes authenticator data of the algorithm that it was told before. NULL: of none. */
static fido_cred_t *parse_credential(struct webauthn_bytes d)
{
    const size_t id_len =
        d.len < ID_PLACE ? 0 : (size_t)d.data[ID_PLACE - 2] << 8 | d.data[ID_PLACE - 1];
    if (d.len < ID_PLACE + id_len)
        return NULL;
    const size_t at = ID_PLACE + id_len;
    if (!webauthn_cbor_is_small((struct webauthn_bytes){d.data + at, d.len - at}))
        return NULL;
    for (int i = 0; i < N_ALGORITHMS; i++) {
        fido_cred_t *c = fido_cred_new();
        if (c && fido_cred_set_type(c, algorithms[i]) == FIDO_OK &&
            fido_cred_set_authdata_raw(c, d.data, d.len) == FIDO_OK)
            return c;
        fido_cred_free(&c);
    }
    return NULL;
}

static bool take_credential(const fido_cred_t *c, struct webauthn_credential *out, struct err *e)
{
    out->algorithm = fido_cred_type(c);
    out->id_len = fido_cred_id_len(c);
    out->public_key_len = fido_cred_pubkey_len(c);
    if (!out->id_len || out->id_len > sizeof out->id || !fido_cred_id_ptr(c))
        return err_field(e, ERR_INPUT, "authenticatorData", "has a credential id of %zu bytes",
                         out->id_len);
    if (!out->public_key_len || out->public_key_len > sizeof out->public_key ||
        !fido_cred_pubkey_ptr(c))
        return err_field(e, ERR_INPUT, "authenticatorData", "has no public key");
    memcpy(out->id, fido_cred_id_ptr(c), out->id_len);
    memcpy(out->public_key, fido_cred_pubkey_ptr(c), out->public_key_len);
    return true;
}

bool webauthn_register(const struct webauthn_site *site, const struct webauthn_registration *r,
                       struct webauthn_credential *out, struct err *e)
{
    use_library();
    *out = (struct webauthn_credential){0};
    if (!webauthn_check_client(site, r->client_data, "webauthn.create", e) ||
        !check_head(site, r->auth_data, &out->counter, e))
        return false;
    if (!(r->auth_data.data[HASH_BYTES] & FLAG_CREDENTIAL))
        return err_field(e, ERR_INPUT, "authenticatorData", "holds no new credential");
    fido_cred_t *c = parse_credential(r->auth_data);
    if (!c)
        return err_field(e, ERR_INPUT, "authenticatorData",
                         "is damaged, or its key is neither ES256, EdDSA nor RS256");
    bool ok = take_credential(c, out, e);
    fido_cred_free(&c);
    return ok;
}

/* One of libfido2's three kinds of public keys. */
struct key {
    es256_pk_t *es256;
    eddsa_pk_t *eddsa;
    rs256_pk_t *rs256;
    const void *any; /* NULL: it is none */
};

static void make_key(struct key *k, int algorithm, struct webauthn_bytes b)
{
    *k = (struct key){0};
    if (algorithm == COSE_ES256 && (k->es256 = es256_pk_new()) &&
        es256_pk_from_ptr(k->es256, b.data, b.len) == FIDO_OK)
        k->any = k->es256;
    if (algorithm == COSE_EDDSA && (k->eddsa = eddsa_pk_new()) &&
        eddsa_pk_from_ptr(k->eddsa, b.data, b.len) == FIDO_OK)
        k->any = k->eddsa;
    if (algorithm == COSE_RS256 && (k->rs256 = rs256_pk_new()) &&
        rs256_pk_from_ptr(k->rs256, b.data, b.len) == FIDO_OK)
        k->any = k->rs256;
}

static void drop_key(struct key *k)
{
    es256_pk_free(&k->es256);
    eddsa_pk_free(&k->eddsa);
    rs256_pk_free(&k->rs256);
}

static bool fill(fido_assert_t *f, const struct webauthn_site *site,
                 const struct webauthn_assertion *a)
{
    return fido_assert_set_count(f, 1) == FIDO_OK &&
           fido_assert_set_rp(f, site->rp_id) == FIDO_OK &&
           fido_assert_set_clientdata(f, a->client_data.data, a->client_data.len) == FIDO_OK &&
           fido_assert_set_up(f, FIDO_OPT_TRUE) == FIDO_OK &&
           fido_assert_set_uv(f, FIDO_OPT_TRUE) == FIDO_OK &&
           fido_assert_set_authdata_raw(f, 0, a->auth_data.data, a->auth_data.len) == FIDO_OK &&
           fido_assert_set_sig(f, 0, a->signature.data, a->signature.len) == FIDO_OK;
}

/* After the head come extensions where its flag says so, and nothing else. */
static bool check_tail(struct webauthn_bytes d, struct err *e)
{
    const unsigned char flags = d.data[HASH_BYTES];
    const struct webauthn_bytes tail = {d.data + HEAD_BYTES, d.len - HEAD_BYTES};
    return (!(flags & FLAG_CREDENTIAL) && !(flags & FLAG_EXTENSIONS) == !tail.len &&
            webauthn_cbor_is_small(tail)) ||
           err_field(e, ERR_INPUT, "authenticatorData", "is damaged");
}

bool webauthn_verify(const struct webauthn_site *site, const struct webauthn_assertion *a,
                     uint32_t *counter, struct err *e)
{
    struct key k;
    use_library();
    if (!webauthn_check_client(site, a->client_data, "webauthn.get", e) ||
        !check_head(site, a->auth_data, counter, e) || !check_tail(a->auth_data, e))
        return false;
    if (!a->signature.len || a->signature.len > SIGNATURE_MAX)
        return err_field(e, ERR_INPUT, "signature", "has %zu bytes, from 1 to %d belong",
                         a->signature.len, SIGNATURE_MAX);
    make_key(&k, a->algorithm, a->public_key);
    fido_assert_t *f = fido_assert_new();
    const bool filled = f && k.any && fill(f, site, a);
    const bool ok = filled && fido_assert_verify(f, 0, a->algorithm, k.any) == FIDO_OK;
    fido_assert_free(&f);
    drop_key(&k);
    if (!filled)
        return err_field(e, ERR_INPUT, "authenticatorData", "is damaged");
    return ok || err_field(e, ERR_INPUT, "signature", "is not that of this passkey");
}
