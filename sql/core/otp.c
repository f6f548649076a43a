/* One-time codes by liboath, compared in constant time. */
#include "sql/core/otp.h"

#include <liboath/oath.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sql/core/secret.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool ready;

static void start(void)
{
    ready = oath_init() == OATH_OK;
}

void otp_secret(unsigned char out[OTP_SECRET_BYTES])
{
    randombytes_buf(out, OTP_SECRET_BYTES);
}

bool otp_base32(const unsigned char secret[OTP_SECRET_BYTES], char out[OTP_BASE32_SIZE])
{
    char *text = NULL;
    size_t len = 0;
    pthread_once(&once, start);
    bool ok = ready &&
              oath_base32_encode((const char *)secret, OTP_SECRET_BYTES, &text, &len) == OATH_OK &&
              len == OTP_BASE32_SIZE - 1;
    if (ok) {
        memcpy(out, text, len);
        out[len] = 0;
    }
    if (text)
        secret_wipe(text, len);
    free(text);
    return ok;
}

int64_t otp_match(const unsigned char secret[OTP_SECRET_BYTES], const char *code, int64_t now_s,
                  int64_t last_step)
{
    const int64_t now = now_s / OTP_STEP_S;
    int64_t found = -1;
    pthread_once(&once, start);
    if (!ready || strlen(code) != OTP_DIGITS || strspn(code, "0123456789") != OTP_DIGITS)
        return -1;
    for (int64_t step = now - 1; step <= now + 1; step++) {
        char want[OTP_DIGITS + 1];
        if (oath_totp_generate((const char *)secret, OTP_SECRET_BYTES, (time_t)(step * OTP_STEP_S),
                               OTP_STEP_S, OATH_TOTP_DEFAULT_START_TIME, OTP_DIGITS,
                               want) != OATH_OK)
            return -1;
        if (secret_equal(want, code) && step > last_step && found < 0)
            found = step;
        secret_wipe(want, sizeof want);
    }
    return found;
}
