/* The client's network as one thing to count by: its IPv4 address, or the /64 of its IPv6 address,
 * which one client owns. Thread: the request's. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct request;

#define CLIENT_ADDRESS_BYTES 64
/* Gives how many bytes it has written. */
size_t client_address(const struct request *r, unsigned char out[CLIENT_ADDRESS_BYTES]);
/* Under a hash that strangers can't compute; not 0. */
uint64_t client_address_key(const struct request *r);
