/* sluice-reader: locks itself in, reads one file from standard input and writes what it is and its
 * text (reader.h). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "reader/content.h"
#include "reader/reader.h"
#include "reader/sandbox.h"
#include "reader/unzip.h"

static bool put(const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(STDOUT_FILENO, data, len);
        if (n < 0 && errno != EINTR)
            return false;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* What is asked of the system before it is locked away. */
struct place {
    bool files_hidden;
    bool has_pdftotext;
};

static bool put_head(const struct content *c, bool files_hidden)
{
    struct buf head = {.limit = READER_HEAD_BYTES};
    buf_puts(&head, "{\"type\":");
    buf_json_string(&head, c->type, strlen(c->type));
    buf_puts(&head, c->form == CONTENT_REFUSED ? ",\"refused\":" : ",\"note\":");
    buf_json_string(&head, c->text, strlen(c->text));
    if (c->form == CONTENT_REFUSED)
        buf_printf(&head, ",\"code\":\"%s\"", c->code);
    else
        buf_printf(&head, ",\"form\":\"%s\"", content_form_names[c->form]);
    buf_printf(&head, ",\"files_hidden\":%s}\n", files_hidden ? "true" : "false");
    bool ok = !head.failed && put(head.data, head.len);
    buf_fini(&head);
    return ok;
}

/* Without Landlock the file could reach others through a parser's mistake, so none is read. */
static int refuse_all(void)
{
    struct content c = {.type = "application/octet-stream"};
    content_refuse(&c, "type",
                   "can't be read here: the server's kernel has no Landlock, so attached files are "
                   "read only with the option --without-landlock");
    return put_head(&c, false) ? 0 : 1;
}

/* The header is out before the text: poppler's program then runs in this process, with this
 * standard output. Its exit status is ours. */
static int become_pdftotext(const struct content *c, const struct place *place)
{
    static char *const args[] = {"pdftotext", "-q", "-enc", "UTF-8", "-eol",
                                 "unix",      "-",  "-",    NULL};
    static char *const environment[] = {"LC_ALL=C.UTF-8", NULL};
    struct content refusal = *c;
    if (!place->has_pdftotext) {
        content_refuse(
            &refusal, "type",
            "is a PDF file; this server has no pdftotext (poppler-utils) to read it with");
        return put_head(&refusal, place->files_hidden) ? 0 : 1;
    }
    if (!put_head(c, place->files_hidden) || lseek(STDIN_FILENO, 0, SEEK_SET) < 0)
        return 1;
    execve(PDFTOTEXT, args, environment);
    return 1;
}

static int read_file(const unsigned char *data, size_t len, const struct place *place)
{
    struct content c;
    struct buf text = {0};
    bool ok = content_detect(data, len, &c);
    if (ok && c.reader == READ_PDF)
        return become_pdftotext(&c, place);
    /* reading plain text may load a character set of the C library; unpacking needs no file */
    if (ok && !(c.reader == READ_ZIP ? sandbox_forbid_files() : sandbox_forbid_exec()))
        return 1;
    if (ok && c.reader == READ_PLAIN)
        ok = content_plain(data, len, &c, &text);
    else if (ok && c.reader == READ_ZIP)
        ok = content_zip(data, len, &c, &text);
    bool written =
        put_head(&c, place->files_hidden) && (!ok || put(text.data ? text.data : "", text.len));
    buf_fini(&text);
    return written ? 0 : 1;
}

/* The archive as it is imported: unzip.h. */
static int serve_archive(void)
{
    const char *why = "its folder";
    if (chdir("/") != 0 || !unzip_lock_in(&why)) {
        fprintf(stderr, "sluice-reader: the system refuses the sandbox (%s): %s\n", why,
                strerror(errno));
        return 1;
    }
    return unzip_serve(STDIN_FILENO, STDOUT_FILENO);
}

int main(int argc, char **argv)
{
    const bool without_landlock = argc == 2 && !strcmp(argv[1], READER_WITHOUT_LANDLOCK);
    const struct sandbox_limits limits = {.cpu_s = READER_CPU_S,
                                          .memory_bytes = READER_MEMORY_BYTES,
                                          .without_landlock = without_landlock};
    struct place place = {.has_pdftotext = access(PDFTOTEXT, X_OK) == 0};
    const char *why;
    struct stat st;
    if (argc == 2 && !strcmp(argv[1], UNZIP_OPTION)) {
        close_range(STDERR_FILENO + 1, ~0U, 0);
        return serve_archive();
    }
    if (argc > 1 && !without_landlock) {
        puts(!strcmp(argv[1], "--version")
                 ? "sluice-reader " PACKAGE_VERSION
                 : "usage: sluice-reader [" READER_WITHOUT_LANDLOCK
                   "] <FILE\n\nWrites what the file is as a line of JSON, then "
                   "the "
                   "text in it. Started by sluice-worker for each attached "
                   "file.\n" READER_WITHOUT_LANDLOCK
                   ": goes on where the kernel can't hide other files.");
        return !strcmp(argv[1], "--version") || !strcmp(argv[1], "--help") ? 0 : 2;
    }
    close_range(STDERR_FILENO + 1, ~0U, 0);
    if (chdir("/") != 0 || !sandbox_enter(&limits, &place.files_hidden, &why)) {
        if (!strcmp(why, "Landlock"))
            return refuse_all();
        fprintf(stderr, "sluice-reader: the system refuses the sandbox (%s): %s\n", why,
                strerror(errno));
        return 1;
    }
    if (fstat(STDIN_FILENO, &st) != 0 || !S_ISREG(st.st_mode)) {
        fprintf(stderr, "sluice-reader: standard input must be a file\n");
        return 2;
    }
    const size_t len = (size_t)st.st_size;
    void *data = len ? mmap(NULL, len, PROT_READ, MAP_PRIVATE, STDIN_FILENO, 0) : NULL;
    if (data == MAP_FAILED)
        return 1;
    return read_file(data, len, &place);
}
