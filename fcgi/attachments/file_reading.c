/* file_reading.h: starts sluice-reader for one file, waits for its answer and checks every word of
 * it. */
#define LOG_MODULE "reader"
#include "fcgi/attachments/file_reading.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "engine/base/utf8.h"
#include "fcgi/process/reader_program.h"
#include "reader/reader.h"

#define READ_MS 20000   /* by the clock; of the processor's time it gets less */
#define BRISK_MS 1000   /* after which it gives way to those who have something short to do */
#define GIVE_WAY_NICE 5 /* beside an engine that computes it still gets a quarter of a core */
#define LEAVE_MS 2000   /* to end after its output did */

/* ---- the process ---- */

enum end { END_WHOLE, END_LATE, END_LONG, END_MEMORY, END_GONE };

/* All of its output, or as much as is taken. client: -1: there is none that could leave. */
static enum end drain(int fd, int client, pid_t reader, struct buf *out)
{
    const double begun = clock_ms();
    bool brisk = true;
    for (double past; (past = clock_ms() - begun) < READ_MS;) {
        struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = client, .events = POLLRDHUP}};
        char piece[16384];
        if (brisk && past >= BRISK_MS) {
            setpriority(PRIO_PROCESS, (id_t)reader, GIVE_WAY_NICE);
            brisk = false;
        }
        if (poll(p, 2, (int)((brisk ? BRISK_MS : READ_MS) - past) + 1) <= 0)
            continue;
        if (p[1].revents & (POLLRDHUP | POLLHUP | POLLERR))
            return END_GONE;
        ssize_t n = read(fd, piece, sizeof piece);
        if (n == 0)
            return END_WHOLE;
        if (n > 0 && out->len + (size_t)n > READER_HEAD_BYTES + READER_TEXT_BYTES)
            return END_LONG;
        if (n > 0 && !buf_append(out, piece, (size_t)n))
            return END_MEMORY;
    }
    return END_LATE;
}

/* ---- what it said ---- */

static bool is_type(const char *t)
{
    size_t n =
        strspn(t, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&^_.+-/");
    return n == strlen(t) && n >= 3 && n < 120 && strchr(t, '/') &&
           strchr(t, '/') == strrchr(t, '/');
}

static bool printable(const char *text, size_t max)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            return false;
    return strlen(text) <= max;
}

static bool nonsense(struct err *e)
{
    return err_set(e, ERR_INPUT, "can't be read");
}

static bool take_refusal(const cJSON *head, const char *words, struct file_reading *out,
                         struct err *e)
{
    const char *code = "";
    if (!json_get_string(head, "code", &code, NULL) || !printable(words, 250))
        return nonsense(e);
    out->refused_type = !strcmp(code, "type");
    return err_set(e,
                   out->refused_type        ? ERR_UNSUPPORTED
                   : !strcmp(code, "large") ? ERR_LIMIT
                                            : ERR_INPUT,
                   "%s", words);
}

/* The first line; *text: what follows. */
static bool take_head(const struct buf *said, struct file_reading *out, size_t *text, struct err *e)
{
    static const char *const forms[FILE_FORM__N] = {"text", "document", "image"};
    const char *type = NULL, *refused = NULL, *note = "", *form = "";
    bool hidden = false;
    static bool told;
    size_t n = 0;
    while (n < said->len && n < READER_HEAD_BYTES && said->data[n] != '\n')
        n++;
    if (n == said->len || said->data[n] != '\n')
        return nonsense(e);
    cJSON *head = json_parse(said->data, n, NULL, NULL);
    bool ok = cJSON_IsObject(head) && json_get_string(head, "type", &type, NULL) &&
              json_get_string(head, "refused", &refused, NULL) &&
              json_get_string(head, "note", &note, NULL) &&
              json_get_string(head, "form", &form, NULL) &&
              json_get_bool(head, "files_hidden", &hidden, NULL);
    if (ok && !hidden && !told) {
        told = true;
        log_warn("the kernel has no Landlock: %s",
                 refused ? "attached files are refused"
                         : "what reads attached files can see other files too");
    }
    int f = 0;
    while (f < FILE_FORM__N && strcmp(form, forms[f]))
        f++;
    if (ok && refused) {
        ok = take_refusal(head, refused, out, e);
    } else if (!ok || !type || !is_type(type) || !printable(note, sizeof out->note - 1) ||
               f == FILE_FORM__N) {
        ok = nonsense(e);
    } else {
        out->form = (enum file_form)f;
        snprintf(out->type, sizeof out->type, "%s", type);
        snprintf(out->note, sizeof out->note, "%s", note);
        *text = n + 1;
    }
    cJSON_Delete(head);
    return ok;
}

/* Lines end in \n alone, and none is left empty at the end. */
static bool take_text(const char *s, size_t len, struct file_reading *out, struct err *e)
{
    if (utf8_valid((const unsigned char *)s, len) != len || memchr(s, 0, len))
        return nonsense(e);
    if (!buf_reserve(&out->text, len + 1))
        return err_set(e, ERR_NOMEM, "no memory for the file's text");
    for (size_t i = 0; i < len; i++)
        if (s[i] != '\r' || i + 1 == len || s[i + 1] != '\n')
            buf_putc(&out->text, s[i] == '\r' || s[i] == '\f' ? '\n' : s[i]);
    struct buf *b = &out->text;
    while (b->len && strchr(" \t\n", b->data[b->len - 1]))
        b->data[--b->len] = '\0';
    if (!b->len)
        return err_set(
            e, ERR_INPUT, "has no text in it%s",
            out->form == FILE_DOCUMENT ? "; scanned pages are pictures, which are not read" : "");
    return true;
}

static bool judge(enum end end, int status, const struct buf *said, struct file_reading *out,
                  struct err *e)
{
    size_t text = 0;
    if (end == END_LATE || (status != -1 && WIFSIGNALED(status) &&
                            (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL)))
        return err_set(e, ERR_LIMIT, "took longer to read than a file may");
    if (end == END_GONE)
        return err_set(e, ERR_CANCELLED, "the client has left");
    if (end == END_MEMORY)
        return err_set(e, ERR_NOMEM, "no memory for the file's text");
    if (!take_head(said, out, &text, e))
        return false;
    if (end == END_LONG || said->len - text > READER_TEXT_BYTES)
        return err_set(e, ERR_LIMIT, "has more than %zu bytes of text", READER_TEXT_BYTES);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status))
        return err_set(e, ERR_INPUT, "can't be read: it is damaged or protected by a password");
    return out->form == FILE_IMAGE || take_text(said->data + text, said->len - text, out, e);
}

bool file_reading_run(int fd, int client, bool without_landlock, struct file_reading *out,
                      struct err *e)
{
    struct buf said = {0};
    int pipes[2];
    pid_t pid;
    *out = (struct file_reading){0};
    if (lseek(fd, 0, SEEK_SET) < 0 || pipe2(pipes, O_CLOEXEC) != 0)
        return err_errno(e, "the file can't be read");
    bool ok = reader_program_start(fd, pipes[1], without_landlock ? READER_WITHOUT_LANDLOCK : NULL,
                                   &pid, e);
    close(pipes[1]);
    if (ok) {
        enum end end = drain(pipes[0], client, pid, &said);
        int status = reader_program_end(pid, end == END_WHOLE ? LEAVE_MS : 0);
        ok = judge(end, status, &said, out, e);
    }
    close(pipes[0]);
    buf_fini(&said);
    return ok;
}

void file_reading_fini(struct file_reading *f)
{
    buf_fini(&f->text);
    *f = (struct file_reading){0};
}
