/* tool_address.h: the ranges that IANA's registries of special addresses keep from the internet. */
#include "fcgi/tools/tool_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

static const struct {
    uint32_t first;
    int bits;
} special[] = {
    {0x00000000, 8},  /* this network */
    {0x0a000000, 8},  /* private */
    {0x64400000, 10}, /* of a provider's own */
    {0x7f000000, 8},  /* loopback */
    {0xa9fe0000, 16}, /* link-local; clouds tell secrets there */
    {0xac100000, 12}, /* private */
    {0xc0000000, 24}, /* of protocols */
    {0xc0000200, 24}, /* examples */
    {0xc0a80000, 16}, /* private */
    {0xc6120000, 15}, /* benchmarks */
    {0xc6336400, 24}, /* examples */
    {0xcb007100, 24}, /* examples */
    {0xe0000000, 3},  /* multicast, reserved, broadcast */
};

static bool is_public4(uint32_t a)
{
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if ((a ^ special[i].first) >> (32 - special[i].bits) == 0)
            return false;
    return true;
}

/* Of IPv6 only the global unicast addresses, without those that hold an IPv4 address (6to4,
 * Teredo) or are for documents. Mapped and translated ones are judged by the address in them. */
static bool is_public6(const unsigned char a[16])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff},
                               nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    if (!memcmp(a, mapped, sizeof mapped) || !memcmp(a, nat64, sizeof nat64)) {
        uint32_t inner;
        memcpy(&inner, a + 12, sizeof inner);
        return is_public4(ntohl(inner));
    }
    const bool global = (a[0] & 0xe0) == 0x20, from4 = a[0] == 0x20 && a[1] == 0x02,
               protocols = a[0] == 0x20 && a[1] == 0x01 && a[2] < 0x02,
               examples = a[0] == 0x20 && a[1] == 0x01 && a[2] == 0x0d && a[3] == 0xb8;
    return global && !from4 && !protocols && !examples;
}

bool tool_address_is_public(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return is_public4(ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr));
    return a->sa_family == AF_INET6 &&
           is_public6(((const struct sockaddr_in6 *)(const void *)a)->sin6_addr.s6_addr);
}
