/* sd_notify without libsystemd: one datagram to the socket that the service manager named in
 * NOTIFY_SOCKET. The one variable that the engine reads from its environment. Nothing happens where
 * it is not set. */
#pragma once

void notify_manager(const char *state); /* "READY=1", "STOPPING=1" */
