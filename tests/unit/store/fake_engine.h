/* An engine whose jobs are known by heart: another process behind a real socket, speaking the real
 * protocol. A job is its key, so that it needs no memory and every attachment sees the same events
 * at the same times:
 *
 *   "NAME.TOKENS.MS.END.START"   TOKENS pieces of text, one every MS milliseconds since START (Unix
 * ms); END is s (stop), l (length), f (failed), x (never known here), b (each connection breaks
 * after the last token)
 *
 * A cancelled job ends as it stands. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Listens before it returns. */
pid_t fake_engine_start(const char *socket_path);
void fake_engine_kill(pid_t pid);
void fake_engine_key(char key[48], const char *name, int tokens, int ms, char end);
/* The whole text of n tokens. */
void fake_engine_text(char *out, size_t size, int n);
