/* Fills nginx's templates: @NAME@ becomes its value. */
#include "fcgi/cli/up/nginx_conf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"

#define MAX_TEMPLATE ((size_t)1 << 20)

struct fill {
    const char *name, *value;
};

/* A path that ends up inside nginx's quotes-free syntax: refuse what would break out of it. */
static bool check_path(const char *path, struct err *e)
{
    if (path[strcspn(path, " \t\r\n;{}\"'$\\")])
        return err_set(e, ERR_INPUT,
                       "%s: nginx cannot take a path with spaces or one of ; { } \" ' $ \\", path);
    return true;
}

static bool check_name(const char *name, size_t len, struct err *e)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t from = len > 2 && !memcmp(name, "*.", 2) ? 2 : 0;
    if (len <= 253 && len > from && strspn(name + from, letters) >= len - from &&
        name[from] != '.' && name[len - 1] != '.')
        return true;
    return err_field(e, ERR_INPUT, "name",
                     "'%.*s' is no DNS name; letters outside ASCII are written as xn--...",
                     len < 80 ? (int)len : 80, name);
}

/* Lines of the map in up.conf.in. Regular expressions, since nginx refuses a name that is there
 * twice, and bounds the length of others. */
static bool list_names(const char *names, struct buf *out, struct err *e)
{
    for (const char *at = names + strspn(names, " "); *at; at += strspn(at, " ")) {
        const size_t len = strcspn(at, " ");
        if (!check_name(at, len, e))
            return false;
        buf_puts(out, "        \"~*^");
        for (size_t i = 0; i < len; i++) {
            if (at[i] == '.')
                buf_putc(out, '\\');
            if (at[i] == '*')
                buf_puts(out, ".+");
            else
                buf_putc(out, at[i]);
        }
        buf_puts(out, "$\" 1;\n");
        at += len;
    }
    return !out->failed || err_set(e, ERR_NOMEM, "out of memory");
}

static bool expand(const char *text, const struct fill *fills, struct buf *out, struct err *e)
{
    while (*text) {
        size_t plain = strcspn(text, "@");
        buf_append(out, text, plain);
        text += plain;
        if (!*text)
            break;
        const struct fill *f = fills;
        size_t n = 0;
        for (; f->name; f++) {
            n = strlen(f->name);
            if (!strncmp(text + 1, f->name, n) && text[n + 1] == '@')
                break;
        }
        if (f->name) {
            buf_puts(out, f->value);
            text += n + 2;
        } else {
            buf_putc(out, *text++);
        }
    }
    return !out->failed || err_set(e, ERR_NOMEM, "out of memory");
}

/* Makes the file `to` of the run folder from the template `from`. */
static bool fill_file(const struct nginx_conf *c, const char *from, const char *to,
                      const struct fill *fills, struct err *e)
{
    char source[4096], target[4096];
    struct buf text = {0}, out = {0};
    bool ok = file_join(source, sizeof source, c->templates, from, e) &&
              file_join(target, sizeof target, c->run, to, e) &&
              file_read(source, MAX_TEMPLATE, &text, e) &&
              expand(text.data ? text.data : "", fills, &out, e) &&
              file_write_atomic(target, out.data ? out.data : "", out.len, 0644, e);
    buf_fini(&text);
    buf_fini(&out);
    return ok;
}

bool nginx_conf_write(const struct nginx_conf *c, struct err *e)
{
    const char *const paths[] = {c->templates,     c->run,          c->web,
                                 c->stream_socket, c->short_socket, c->status_socket};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (!check_path(paths[i], e))
            return false;
    char headers[4096], hosts[4096], fastcgi[4096], mime[4096], server[4096];
    struct buf names = {0};
    if (!file_join(hosts, sizeof hosts, c->templates, "hosts.conf", e) ||
        !file_join(headers, sizeof headers, c->templates, "headers.conf", e) ||
        !file_join(fastcgi, sizeof fastcgi, c->templates, "fastcgi.conf", e) ||
        !file_join(mime, sizeof mime, c->templates, "mime.types", e) ||
        !file_join(server, sizeof server, c->run, "server.conf", e) ||
        !file_mkdirs(c->run, 0700, e) || !list_names(c->names, &names, e)) {
        buf_fini(&names);
        return false;
    }
    const struct fill fills[] = {
        {"USER",
         geteuid() == 0 ? "user root;" : ""}, /* its sockets and files are this user's alone */
        {"RUN", c->run},
        {"MIME", mime},
        {"LISTEN", c->listen},
        {"SERVER", server},
        {"WEB", c->web},
        {"STREAM_SOCKET", c->stream_socket},
        {"SHORT_SOCKET", c->short_socket},
        {"STATUS_SOCKET", c->status_socket},
        {"HEADERS", headers},
        {"FASTCGI", fastcgi},
        {"HOSTS", hosts},
        {"HOST_NAMES", names.data ? names.data : ""},
        {NULL, NULL},
    };
    bool ok = fill_file(c, "server.conf.in", "server.conf", fills, e) &&
              fill_file(c, "up.conf.in", "nginx.conf", fills, e);
    buf_fini(&names);
    return ok;
}

const char *nginx_program(void)
{
    static const char *const places[] = {"/usr/sbin/nginx", "/usr/local/sbin/nginx",
                                         "/usr/bin/nginx", "/usr/local/bin/nginx",
                                         "/opt/nginx/sbin/nginx"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}
