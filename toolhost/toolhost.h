/* sluice-toolhost: runs the tool servers that are programs (the Model Context Protocol over stdio).
 * A worker connects to its socket, sends the name of a program and a line feed, and is answered
 * with one line: "ok", or why not. From then on the connection is the program's standard input and
 * output. Each connection is a program of its own, in a sandbox; it is killed when the other side
 * leaves, or its worker dies, or its time is over. */
#pragma once

#define TOOLHOST_OK "ok"
#define TOOLHOST_UNKNOWN "unknown" /* no program of that name is in the file */
#define TOOLHOST_WAIT "wait"       /* it keeps ending by itself: not started again for a while */
#define TOOLHOST_BUSY "busy"       /* too many run */
#define TOOLHOST_LINE 32           /* bytes of the answer at most */
