/* One-time codes of authenticator apps (RFC 6238: HMAC-SHA1, 30 seconds, 6 digits: what every app
 * can). The only door to liboath. Thread-safe; no state. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define OTP_SECRET_BYTES 20
#define OTP_BASE32_SIZE 33 /* 32 letters and a NUL */
#define OTP_STEP_S 30
#define OTP_DIGITS 6

void otp_secret(unsigned char out[OTP_SECRET_BYTES]); /* at random */
/* As apps take it by hand. */
bool otp_base32(const unsigned char secret[OTP_SECRET_BYTES], char out[OTP_BASE32_SIZE]);
/* The step whose code this is: now's, the one before or the one after (clocks differ), and later
 * than last_step, so that a code that was seen on its way is worth nothing. -1: none of them. */
int64_t otp_match(const unsigned char secret[OTP_SECRET_BYTES], const char *code, int64_t now_s,
                  int64_t last_step);
