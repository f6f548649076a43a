/* The processor time that another process has used, for tests of what must not spin. */
#pragma once
#include <sys/types.h>

double process_cpu_seconds(pid_t pid); /* user and kernel; -1: there is no such process */
