/* client_address.h: IPv4 counts as its text, IPv6 by its first eight bytes. */
#include "fcgi/http/client_address.h"

#include <arpa/inet.h>
#include <string.h>

#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"

size_t client_address(const struct request *r, unsigned char out[CLIENT_ADDRESS_BYTES])
{
    const char *address = request_remote(r);
    struct in6_addr six;
    size_t len = strnlen(address, CLIENT_ADDRESS_BYTES);
    if (inet_pton(AF_INET6, address, &six) == 1) {
        len = IN6_IS_ADDR_V4MAPPED(&six) ? sizeof six : sizeof six / 2;
        memcpy(out, &six, len);
    } else {
        memcpy(out, address, len);
    }
    return len;
}

uint64_t client_address_key(const struct request *r)
{
    unsigned char bytes[CLIENT_ADDRESS_BYTES];
    return shared_throttle_hash(r->worker->shared, bytes, client_address(r, bytes));
}
