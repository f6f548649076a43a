/* A real engine process with the demo model, and jobs for it. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/wire/message.h"
#include "tests/unit/engine/engine_process.h"
#include "tests/unit/support/process_cpu.h"

extern struct engine_process engine;

/* "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n" of the golden
 * greedy.json */
#define N_HELLO 13
extern const int32_t hello[N_HELLO];

int start_engine(void **state);
int remove_engine(void **state);

/* A clean end, so that a sanitizer can count what was never freed. */
int stop_engine(void **state);

struct engine_job_params hello_params(int32_t max_tokens);
struct engine_job *submit(const struct engine_job_params *p);

/* A job that goes on until it is stopped: 400 tokens take the cpu long enough. */
struct engine_job_params long_params(void);
