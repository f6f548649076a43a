/* Which addresses a user's tool server may have: those of the public internet. Otherwise whoever
 * may add a server could reach what lies beside this one in its network. Looked at where the
 * connection is made, so that no name that changes its address gets past. Thread-safe. */
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

/* IPv4 and IPv6; an address of any other kind is not public. */
bool tool_address_is_public(const struct sockaddr *a);
