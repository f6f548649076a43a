/* sluice export: one user's conversations as JSON, in bounded memory and without holding the database up. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/option.h"
#include "fcgi/answer.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "sql/store.h"
#include "sql/store_conversations.h"

#define EXPORT_VERSION 1
#define MESSAGES_AT_ONCE 50 /* read, then written: no query is open while a slow reader takes its time */

struct settings {
    const char *state, *output;
    bool help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR", CLI_STATE_HELP},
    {"output", OPTION_STRING, offsetof(struct settings, output), NULL, 0, 0, NULL, "FILE",
     "write there (0600) instead of to standard output"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0], MAX_WORDS = 8 };

extern const struct command cmd_export;

struct export {
    struct store *store;
    FILE *out;
    struct buf buf;
    int64_t user_id, last_conversation, last_message;
    int n_conversations, n_page;
};

static bool write_out(struct export *x, struct err *e)
{
    bool ok = !x->buf.failed && fwrite(x->buf.data ? x->buf.data : "", 1, x->buf.len, x->out) == x->buf.len;
    buf_clear(&x->buf);
    return ok || err_errno(e, "writing the export");
}

static bool put_message(void *context, const struct store_message *m)
{
    struct export *x = context;
    buf_puts(&x->buf, x->last_message ? ",\n   " : "\n   ");
    answer_message_json(&x->buf, m, false);
    x->last_message = m->id;
    x->n_page++;
    return !x->buf.failed;
}

static bool put_messages(struct export *x, int64_t conversation_id, struct err *e)
{
    x->last_message = 0;
    do {
        x->n_page = 0;
        if (!store_message_list(x->store, x->user_id, conversation_id, x->last_message, MESSAGES_AT_ONCE, put_message,
                                x, e) ||
            !write_out(x, e))
            return false;
    } while (x->n_page == MESSAGES_AT_ONCE);
    return true;
}

/* One row at a time: the next one is asked for by id, so that no query stays open. */
static bool put_conversation(void *context, const struct store_conversation *c)
{
    struct export *x = context;
    buf_printf(&x->buf, "%s\n {\"id\":\"%lld\",\"title\":", x->n_conversations++ ? "," : "", (long long)c->id);
    buf_json_string(&x->buf, c->title, strlen(c->title));
    buf_printf(&x->buf, ",\"created_at\":%lld,\"updated_at\":%lld,\"settings\":%s,\"leaf_id\":", (long long)c->created_at,
               (long long)c->updated_at, c->settings);
    if (c->leaf_id)
        buf_printf(&x->buf, "\"%lld\"", (long long)c->leaf_id);
    else
        buf_puts(&x->buf, "null");
    buf_puts(&x->buf, ",\"messages\":[");
    x->last_conversation = c->id;
    return false;
}

static bool put_all(struct export *x, const struct store_user *u, struct err *e)
{
    buf_printf(&x->buf, "{\"format\":\"sluice-export\",\"version\":%d,\"exported_at\":%lld,\"user\":", EXPORT_VERSION,
               (long long)clock_wall_ms());
    buf_json_string(&x->buf, u->name, strlen(u->name));
    buf_puts(&x->buf, ",\"conversations\":[");
    for (;;) {
        int before = x->n_conversations;
        if (!store_conversation_each(x->store, x->user_id, x->last_conversation, 1, put_conversation, x, e))
            return false;
        if (x->n_conversations == before)
            break;
        if (!put_messages(x, x->last_conversation, e))
            return false;
        buf_puts(&x->buf, "]}");
    }
    buf_puts(&x->buf, "]}\n");
    return write_out(x, e) && (fflush(x->out) == 0 || err_errno(e, "writing the export"));
}

static FILE *open_output(const char *path, struct err *e)
{
    if (!path)
        return stdout;
    FILE *f = fopen(path, "we");
    if (!f || fchmod(fileno(f), 0600)) {
        err_errno(e, "%s", path);
        if (f)
            fclose(f);
        return NULL;
    }
    return f;
}

static bool export_user(const struct settings *o, const char *name, struct err *e)
{
    struct store_user u;
    struct arena *a = arena_create(1 << 20);
    struct export x = {.store = cli_store_open(o->state, false, e)};
    bool ok = a && x.store && cli_store_user(x.store, a, name, &u, e) && (x.out = open_output(o->output, e));
    if (ok) {
        x.user_id = u.id;
        ok = put_all(&x, &u, e);
        if (o->output && fclose(x.out) && ok)
            ok = err_errno(e, "%s", o->output);
        if (ok)
            fprintf(stderr, "%d conversations of %s\n", x.n_conversations, u.name);
    }
    buf_fini(&x.buf);
    store_close(&x.store);
    arena_destroy(&a);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    struct err e = {0};
    char *rest[MAX_WORDS + 1] = {0};
    if (argc > MAX_WORDS || !option_parse(options, N_OPTIONS, argc, argv, &o, rest, &e)) {
        if (argc > MAX_WORDS)
            err_set(&e, ERR_INPUT, "too many words");
        command_fail("export", &e);
        return 2;
    }
    if (o.help || !rest[0] || rest[1]) {
        printf("usage: sluice export %s\n\n%s\n\n", cmd_export.usage, cmd_export.help);
        option_help(options, N_OPTIONS);
        return o.help ? 0 : 2;
    }
    return export_user(&o, rest[0], &e) ? 0 : command_fail("export", &e);
}

const struct command cmd_export = {
    .name = "export",
    .usage = "USER [--output FILE] [--state DIR]",
    .help = "write a user's conversations as JSON",
    .run = run,
};
