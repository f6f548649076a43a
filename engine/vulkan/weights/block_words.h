/* What device_block.c and block_decode.c share: codes as words of four columns, a byte each. */
#pragma once
#include <stdint.h>
#include <string.h>

#define NIBBLES 0x0f0f0f0fu
#define PAIRS 0x03030303u
#define ONES 0x01010101u

static inline uint32_t word(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void put(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}
