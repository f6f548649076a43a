/* Log lines on stderr: time, level, module, text of the form "job=42 tokens=17 ms=9.3".
 * Never prompts, answers, keys, passwords or cookies. Thread-safe; lines of several processes never
 * mix.
 * Each file that logs defines LOG_MODULE before this include. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* The level above which lines are dropped; LOG_INFO at start. Set once, before threads start. */
void log_set_level(enum log_level level);
/* error, warn, info, debug; returns -1 for anything else. */
int log_level_from_name(const char *name);
/* Sets a second destination of lines beside standard error (log_ring.h): the text without time,
 * level and module. Set once, before threads start. */
void log_set_sink(void (*sink)(enum log_level level, const char *module, const char *text,
                               size_t len));
void log_write(enum log_level level, const char *module, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* From now on lines of LOG_INFO and below wait in this process for log_flush, a warning, or some
 * twenty others: who reads them is woken once for all. Whoever calls it flushes before it sleeps.
 * Of a process that is killed they are lost here, the sink has them. Called before threads start.
 */
void log_gather(void);
bool log_gathered(void); /* some wait */
void log_flush(void);

#define log_error(...) log_write(LOG_ERROR, LOG_MODULE, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, LOG_MODULE, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, LOG_MODULE, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, LOG_MODULE, __VA_ARGS__)
