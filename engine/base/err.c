/* Fills struct err with its code, field and text, and maps errno to the codes of err.h. */
#include "engine/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_text(struct err *e, enum err_code code, const char *field, const char *fmt,
                     va_list ap)
{
    if (!e)
        return;
    e->code = code;
    e->reason[0] = e->params[0] = 0;
    snprintf(e->field, sizeof e->field, "%s", field);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
}

bool err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_text(e, code, "", fmt, ap);
    va_end(ap);
    return false;
}

bool err_field(struct err *e, enum err_code code, const char *field, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_text(e, code, field, fmt, ap);
    va_end(ap);
    return false;
}

bool err_reason(struct err *e, const char *reason)
{
    if (e && strlen(reason) < sizeof e->reason)
        snprintf(e->reason, sizeof e->reason, "%s", reason);
    return false;
}

bool err_param(struct err *e, const char *name, int64_t value)
{
    if (!e)
        return false;
    const size_t used = strlen(e->params);
    const int n = snprintf(e->params + used, sizeof e->params - used, "%s\"%s\":%lld",
                           used ? "," : "", name, (long long)value);
    if (n < 0 || (size_t)n >= sizeof e->params - used)
        e->params[used] = 0;
    return false;
}

bool err_prefix(struct err *e, const char *fmt, ...)
{
    if (!e)
        return false;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", old);
    return false;
}

static enum err_code code_of(int number)
{
    switch (number) {
    case ENOENT:
        return ERR_NOTFOUND;
    case ENOMEM:
        return ERR_NOMEM;
    case ENOSPC:
    case EDQUOT:
        return ERR_FULL;
    case EROFS:
        return ERR_READ_ONLY;
    default:
        return ERR_IO;
    }
}

bool err_errno(struct err *e, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    set_text(e, code_of(saved), "", fmt, ap);
    va_end(ap);
    if (e) {
        size_t n = strlen(e->text);
        snprintf(e->text + n, sizeof e->text - n, ": %s", strerror(saved));
    }
    return false;
}

const char *err_code_name(enum err_code code)
{
    static const char *const names[ERR__N] = {
        [ERR_NONE] = "none",
        [ERR_NOMEM] = "nomem",
        [ERR_FORMAT] = "format",
        [ERR_IO] = "io",
        [ERR_DEVICE] = "device",
        [ERR_BUSY] = "busy",
        [ERR_LIMIT] = "limit",
        [ERR_AUTH] = "auth",
        [ERR_FORBIDDEN] = "forbidden",
        [ERR_NOTFOUND] = "notfound",
        [ERR_CONFLICT] = "conflict",
        [ERR_INPUT] = "input",
        [ERR_CANCELLED] = "cancelled",
        [ERR_UNAVAILABLE] = "unavailable",
        [ERR_UNSUPPORTED] = "unsupported",
        [ERR_INTERNAL] = "internal",
        [ERR_FULL] = "full",
        [ERR_READ_ONLY] = "readonly",
    };
    return code < ERR__N ? names[code] : "unknown";
}
