/* sluice chat: a conversation in the terminal, the same one as on the page. */
#include <curl/curl.h>
#include <errno.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "fcgi/cli/chat/chat.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"

extern const struct command cmd_chat;

struct settings {
    const char *url, *key_file, *state, *user, *home, *file, *id;
    bool go_on, list, json;
};

#define FIELD(name) offsetof(struct settings, name)
static const struct option options[] = {
    {"url", OPTION_STRING, FIELD(url), "http://127.0.0.1:8080", 0, 0, NULL, "URL", "the server"},
    {"key-file", OPTION_STRING, FIELD(key_file), NULL, 0, 0, NULL, "FILE",
     "take the API key from the first line of FILE; else one is made once in the state folder and "
     "kept in ~/.config/sluice/chat.json"},
    {"state", OPTION_STRING, FIELD(state), NULL, 0, 0, NULL, "DIR", CLI_STATE_HELP},
    {"user", OPTION_STRING, FIELD(user), NULL, 0, 0, NULL, "NAME",
     "whose chats these are (default: the only user, else the first admin)"},
    {"home", OPTION_STRING, FIELD(home), NULL, 0, 0, NULL, "DIR",
     "the home folder that keeps the key (default: yours)"},
    {"file", OPTION_STRING, FIELD(file), NULL, 0, 0, NULL, "FILE",
     "attach it to the first message"},
    {"continue", OPTION_BOOL, FIELD(go_on), "false", 0, 0, NULL, NULL,
     "go on with the newest conversation"},
    {"open", OPTION_STRING, FIELD(id), NULL, 0, 0, NULL, "ID", "go on with this conversation"},
    {"list", OPTION_BOOL, FIELD(list), "false", 0, 0, NULL, NULL,
     "show the newest conversations, and end"},
    {"json", OPTION_BOOL, FIELD(json), "false", 0, 0, NULL, NULL,
     "with --list or a message: as JSON"},
};

static const char help[] = "/new           another conversation\n"
                           "/list          the newest conversations\n"
                           "/open ID       go on with one of them\n"
                           "/file PATH     attach a file to the next message\n"
                           "/again         another answer to the last message\n"
                           "/quit          end (Ctrl-D too); Ctrl-C stops an answer\n"
                           "A message of several lines: end each but the last with \\\n";

/* False: the end. */
static bool command(struct chat *c, char *line, struct err *e)
{
    char *word = strtok(line, " "), *rest = strtok(NULL, "");
    if (!strcmp(word, "/quit") || !strcmp(word, "/exit") || !strcmp(word, "/bye"))
        return false;
    if (!strcmp(word, "/new"))
        chat_forget(c);
    else if (!strcmp(word, "/list"))
        chat_list(c, false, e);
    else if (!strcmp(word, "/open"))
        chat_open(c, rest ? rest : "", true, e);
    else if (!strcmp(word, "/again"))
        chat_say(c, NULL, e);
    else if (!strcmp(word, "/file") && rest)
        (void)(chat_attach(c, rest, e) && printf("attached to the next message: %s\n", rest));
    else
        fputs(help, stdout);
    return true;
}

/* A message, whose lines but the last end with a backslash. False: no more. */
static bool read_message(struct buf *b, bool prompt)
{
    static char *line;
    static size_t room;
    buf_clear(b);
    for (bool more = true; more;) {
        if (prompt)
            fputs(b->len ? ". " : "> ", stdout);
        fflush(stdout);
        errno = 0;
        ssize_t n = getline(&line, &room, stdin);
        if (n < 0 && errno == EINTR) { /* Ctrl-C: the line is given up */
            clearerr(stdin);
            putchar('\n');
            buf_clear(b);
            continue;
        }
        if (n < 0)
            return b->len > 0;
        line[strcspn(line, "\n")] = '\0';
        size_t len = strlen(line);
        more = len && line[len - 1] == '\\';
        line[len - more] = '\0';
        if (b->len)
            buf_putc(b, '\n');
        buf_puts(b, line);
    }
    return true;
}

static bool converse(struct chat *c, struct err *e)
{
    struct buf message = {0};
    const bool typed = isatty(STDIN_FILENO);
    bool ok = true;
    if (typed)
        printf("Chats are those of %s. /help shows commands.\n", c->server.url);
    while (ok && read_message(&message, typed)) {
        struct err why = {0};
        if (!message.data || !message.data[strspn(message.data, " \t")])
            continue;
        if (message.data[0] == '/') {
            if (!command(c, message.data, &why))
                break;
        } else {
            chat_say(c, message.data, &why);
        }
        if (why.code && typed)
            fprintf(stderr, "%s\n", why.text);
        else if (why.code) {
            *e = why;
            ok = false;
        }
    }
    buf_fini(&message);
    return ok;
}

static bool once(struct chat *c, char **words, bool json, struct err *e)
{
    struct buf text = {0}, out = {0};
    for (; *words; words++)
        buf_printf(&text, "%s%s", text.len ? " " : "", *words);
    c->quiet = json;
    bool ok = !text.failed && chat_say(c, text.data, e);
    if (ok && json && c->last && json_write(&out, c->last))
        puts(out.data);
    buf_fini(&text);
    buf_fini(&out);
    return ok;
}

static bool chat(const struct settings *o, char **words, struct arena *a, struct err *e)
{
    char url[512];
    const struct passwd *pw = o->home ? NULL : getpwuid(getuid());
    struct chat_key_ask ask = {.url = url,
                               .file = o->key_file,
                               .state = o->state,
                               .user = o->user,
                               .home = o->home ? o->home
                                       : pw    ? arena_strdup(a, pw->pw_dir)
                                               : NULL};
    struct chat c = {.server = {.url = url}, .plain = o->json || !isatty(STDOUT_FILENO)};
    if (!ask.home)
        return err_set(e, ERR_INPUT, "no home folder; use --home");
    if (o->json && !o->list && !words[0])
        return err_field(e, ERR_INPUT, "json", "goes with --list or a message");
    if (!cli_http_url(o->url, url, sizeof url, e) || !chat_key_find(&ask, a, &c.server.key, e))
        return false;
    bool ok = true;
    if (o->id || o->go_on)
        ok = chat_open(&c, o->id, !words[0] && !o->list, e);
    if (ok && o->file)
        ok = chat_attach(&c, o->file, e);
    chat_catch_interrupts();
    if (ok && o->list)
        ok = chat_list(&c, o->json, e);
    else if (ok)
        ok = words[0] ? once(&c, words, o->json, e) : converse(&c, e);
    chat_forget(&c);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    struct err e = {0};
    struct arena *a = arena_create(1 << 22);
    char **words = a ? arena_alloc(a, sizeof *words * ((size_t)argc + 1)) : NULL;
    int status = words ? cli_options(&cmd_chat, argc, argv, &o, words) : 1;
    if (status < 0) {
        curl_global_init(CURL_GLOBAL_DEFAULT);
        bool ok = chat(&o, words, a, &e);
        status = ok ? 0 : e.code == ERR_INPUT ? 2 : 1;
        if (!ok)
            command_fail("chat", &e);
        curl_global_cleanup();
    }
    arena_destroy(&a);
    return status;
}

const struct command cmd_chat = {
    .name = "chat",
    .usage = "[MESSAGE] [--continue | --open ID | --list] [--file FILE] [--url URL] [--json]",
    .help = "talk with the model in the terminal; the chats are those of the page",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
