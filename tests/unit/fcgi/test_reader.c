/* reader/: what is in files of all kinds, good and hostile; and that the sandbox holds. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "reader/content.h"
#include "reader/reader.h"
#include "reader/sandbox.h"

/* Reads a file as sluice-reader does; the text in out. */
static bool read_bytes(const char *data, size_t len, struct content *c, struct buf *out)
{
    if (!content_detect((const unsigned char *)data, len, c))
        return false;
    return c->reader == READ_PLAIN ? content_plain((const unsigned char *)data, len, c, out)
           : c->reader == READ_ZIP ? content_zip((const unsigned char *)data, len, c, out)
                                   : true;
}

static void expect(const char *data, size_t len, const char *type, const char *text,
                   const char *note)
{
    struct content c;
    struct buf out = {0};
    if (!read_bytes(data, len, &c, &out))
        fail_msg("refused: %s", c.text);
    assert_string_equal(c.type, type);
    assert_string_equal(out.data ? out.data : "", text);
    assert_string_equal(c.text, note);
    buf_fini(&out);
}

static void refuse(const char *data, size_t len, const char *code, const char *words)
{
    struct content c;
    struct buf out = {0};
    if (read_bytes(data, len, &c, &out))
        fail_msg("taken as %s: %s", c.type, out.data);
    assert_string_equal(c.code, code);
    if (!strstr(c.text, words))
        fail_msg("%s", c.text);
    buf_fini(&out);
}
#define EXPECT(literal, ...) expect(literal, sizeof(literal) - 1, __VA_ARGS__)
#define REFUSE(literal, ...) refuse(literal, sizeof(literal) - 1, __VA_ARGS__)

static void test_text_in_any_usual_encoding(void **state)
{
    EXPECT("plain words\n", "text/plain", "plain words\n", "");
    EXPECT("{\"a\": [1, 2]}\n", "application/json", "{\"a\": [1, 2]}\n", "");
    EXPECT("\xef\xbb\xbfgr\xc3\xbc\xc3\x9f", "text/plain", "gr\xc3\xbc\xc3\x9f", "");
    EXPECT("\xff\xfeh\0\xe9\0", "text/plain", "h\xc3\xa9", "read as UTF-16LE");
    EXPECT("\xfe\xff\0h\0\xe9", "text/plain", "h\xc3\xa9", "read as UTF-16BE");
    EXPECT("caf\xe9 \x93well\x94\n", "text/plain", "caf\xc3\xa9 \xe2\x80\x9cwell\xe2\x80\x9d\n",
           "read as Windows-1252, a guess");
    EXPECT("<svg xmlns=\"http://www.w3.org/2000/svg\"><script>1</script></svg>", "image/svg+xml",
           "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>1</script></svg>", "");
}

static void test_what_is_no_text_is_refused_in_words(void **state)
{
    REFUSE("", "empty", "is empty");
    REFUSE("a\0b", "type", "binary data");
    REFUSE("\x7f"
           "ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0>\0\1\0\0\0",
           "type", "is of the type application/x-");
    REFUSE("{\\rtf1\\ansi x}", "type", "rich text; save it as");
    REFUSE("\xff\xfeh\0i\0x", "damaged", "not well-formed text in UTF-16LE");
    REFUSE("\xef\xbb\xbfx\xff", "damaged", "not well-formed UTF-8");
    char long_nul[200001];
    memset(long_nul, 'a', sizeof long_nul);
    long_nul[200000] = '\0'; /* past where libmagic looks */
    struct content c;
    struct buf out = {0};
    assert_false(read_bytes(long_nul, sizeof long_nul, &c, &out));
    buf_fini(&out);
}

static void test_type_is_by_content(void **state)
{
    struct content c;
    struct buf out = {0};
    static const char gif[] = "GIF89a/*\1\0\0\0*/=1;alert(1)",
                      html_after_pdf[] = "%PDF-1.4\n<script>alert(1)</script>";
    assert_true(read_bytes(gif, sizeof gif, &c, &out));
    assert_string_equal(c.type, "image/gif");
    assert_int_equal(c.form, CONTENT_IMAGE);
    assert_true(
        content_detect((const unsigned char *)html_after_pdf, sizeof html_after_pdf - 1, &c));
    assert_string_equal(c.type, "application/pdf");
    assert_int_equal(c.reader, READ_PDF);
}

/* ---- documents ---- */

struct entry {
    const char *name, *text;
    size_t len; /* 0: strlen; more than the text: its last byte goes on */
};

static void write_entry(struct archive *a, const struct entry *e)
{
    struct archive_entry *entry = archive_entry_new();
    size_t given = strlen(e->text), len = e->len ? e->len : given;
    archive_entry_set_pathname(entry, e->name);
    archive_entry_set_size(entry, (la_int64_t)len);
    archive_entry_set_filetype(entry, AE_IFREG);
    assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
    archive_write_data(a, e->text, given);
    char fill[65536];
    memset(fill, given ? e->text[given - 1] : 'x', sizeof fill);
    for (size_t left = len - given; left;) {
        size_t n = left < sizeof fill ? left : sizeof fill;
        archive_write_data(a, fill, n);
        left -= n;
    }
    archive_entry_free(entry);
}

static char *zip(const struct entry *entries, size_t *len)
{
    const size_t room = 1 << 20;
    char *out = malloc(room);
    struct archive *a = archive_write_new();
    archive_write_set_format_zip(a);
    assert_int_equal(archive_write_open_memory(a, out, room, len), ARCHIVE_OK);
    for (; entries->name; entries++)
        write_entry(a, entries);
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    return out;
}

#define DOCX_HEAD                                                                                  \
    {"[Content_Types].xml", "<Types/>", 0},                                                        \
    {                                                                                              \
        "_rels/.rels", "<R/>", 0                                                                   \
    }
#define DOCX_TYPE "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
#define BODY(inside)                                                                               \
    "<w:document xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\" "        \
    "xmlns:mc=\"http://schemas.openxmlformats.org/markup-compatibility/2006\"><w:body>" inside     \
    "</w:body></w:document>"

static void expect_docx(const char *xml, const char *text)
{
    size_t len;
    char *data = zip((const struct entry[]){DOCX_HEAD, {"word/document.xml", xml, 0}, {0}}, &len);
    expect(data, len, DOCX_TYPE, text, "");
    free(data);
}

static void refuse_docx(const char *xml, size_t len, const char *code, const char *words)
{
    size_t size;
    char *data =
        zip((const struct entry[]){DOCX_HEAD, {"word/document.xml", xml, len}, {0}}, &size);
    refuse(data, size, code, words);
    free(data);
}

static void test_docx_gives_its_words(void **state)
{
    expect_docx(BODY("<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>One</w:t></"
                     "w:r><w:r><w:t xml:space=\"preserve\"> two</w:t>"
                     "<w:tab/><w:t>&lt;3&gt;</w:t><w:br/><w:t>x</w:t></w:r></w:p>"),
                "One two\t<3>\nx\n");
    expect_docx(BODY("<w:p><w:del><w:r><w:t>gone</w:t></w:r></w:del><w:ins><w:r><w:t>came</w:t></"
                     "w:r></w:ins></w:p>"),
                "came\n");
    expect_docx(BODY("<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></"
                     "w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr>"
                     "<w:tr><w:tc><w:p><w:r><w:t>c</w:t></w:r></w:p></w:tc></w:tr></"
                     "w:tbl><w:p><w:r><w:t>d</w:t></w:r></w:p>"),
                "a\tb\nc\nd\n");
    expect_docx(
        BODY("<w:p><mc:AlternateContent><mc:Choice><w:r><w:t>box</w:t></w:r></mc:Choice>"
             "<mc:Fallback><w:r><w:t>box</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>"),
        "box\n");
}

static void test_odt_gives_its_words(void **state)
{
    size_t len;
    char *data = zip(
        (const struct entry[]){
            {"mimetype", "application/vnd.oasis.opendocument.text", 0},
            {"content.xml",
             "<o:document-content xmlns:o=\"urn:oasis:names:tc:opendocument:xmlns:office:1.0\" "
             "xmlns:t=\"urn:oasis:names:tc:opendocument:xmlns:text:1.0\"><o:body><o:text>\n "
             "<t:h>Head</t:h>\n <t:p>a<t:s t:c=\"2\"/>b"
             "<t:span>c</t:span><t:tab/>d<t:line-break/>e<o:annotation><t:p>no</t:p></"
             "o:annotation></t:p></o:text></o:body>"
             "</o:document-content>",
             0},
            {0}},
        &len);
    struct content c;
    struct buf out = {0};
    if (!content_detect((const unsigned char *)data, len, &c))
        fail_msg("%s", c.text);
    /* libarchive writes the mark compressed, so libmagic may see a ZIP only */
    c.type = "application/vnd.oasis.opendocument.text";
    if (!content_zip((const unsigned char *)data, len, &c, &out))
        fail_msg("%s", c.text);
    assert_string_equal(out.data, "Head\na  bc\td\ne\n");
    buf_fini(&out);
    free(data);
}

static void test_hostile_documents_are_refused(void **state)
{
    refuse_docx(
        "<!DOCTYPE lolz [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]>" BODY(
            "<w:p><w:r><w:t>&b;</w:t></w:r></w:p>"),
        0, "damaged", "document type declaration");
    refuse_docx("<!DOCTYPE x SYSTEM \"file:///etc/passwd\">" BODY(""), 0, "damaged",
                "document type declaration");
    refuse_docx(BODY("<w:p><w:r><w:t>&nothere;</w:t></w:r></w:p>"), 0, "damaged",
                "not well-formed");
    refuse_docx("<a>", 0, "damaged", "not well-formed");
    /* bombs: of text, and of mere space */
    refuse_docx("<w:document xmlns:w=\"x/main\"><w:body><w:p><w:r><w:t>A", 30 << 20, "large",
                "bytes of text");
    refuse_docx("<w:document xmlns:w=\"x/main\"><w:body> ", 80 << 20, "large", "unpacks to more");
    struct buf deep = {0};
    for (int i = 0; i < 5000; i++)
        buf_puts(&deep, "<a>");
    refuse_docx(deep.data, 0, "damaged", "nested more than");
    buf_fini(&deep);
    size_t len;
    char *data =
        zip((const struct entry[]){{"../../etc/passwd", "x", 0}, {"x.txt", "x", 0}, {0}}, &len);
    refuse(data, len, "type", "ZIP archive; unpack it");
    free(data);
    data =
        zip((const struct entry[]){DOCX_HEAD, {"word/document.xml", BODY("<w:p/>"), 0}, {0}}, &len);
    refuse(data, len / 2, "damaged", "damaged"); /* cut short */
    free(data);
}

/* ---- the sandbox: what a reader that was taken over could do ---- */

static int try_to_escape(void)
{
    bool hidden = false;
    const char *why;
    char secret[] = "/tmp/sluice-sandbox-XXXXXX";
    int fd = mkstemp(secret);
    close(fd);
    const struct sandbox_limits l = {
        .cpu_s = 2, .memory_bytes = (size_t)256 << 20, .without_landlock = true};
    if (!sandbox_enter(&l, &hidden, &why))
        return 10;
    if (open(secret, O_WRONLY) >= 0 || open("/tmp/new", O_CREAT | O_WRONLY, 0600) >= 0 ||
        unlink(secret) == 0)
        return 1;
    /* no word about a path, and no code of its own */
    struct stat st;
    char target[64];
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stat("/tmp", &st) == 0 || lstat("/tmp", &st) == 0 || access("/tmp", F_OK) == 0 ||
        readlink("/proc/self/exe", target, sizeof target) >= 0 ||
        statx(AT_FDCWD, "/tmp", 0, STATX_SIZE, &(struct statx){0}) == 0 ||
        fstat(STDIN_FILENO, &st) != 0)
        return 9;
    if (page == MAP_FAILED || mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0 ||
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return 11;
    if (hidden && (open(secret, O_RDONLY) >= 0 || open("/etc/passwd", O_RDONLY) >= 0 ||
                   open("/proc/self/maps", O_RDONLY) >= 0))
        return 2;
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
        return 3;
    if (fork() >= 0)
        return 4;
    if (kill(getppid(), 0) == 0)
        return 5;
    fd = open("/usr/lib/os-release", O_RDONLY);
    if (fd < 0)
        return 6; /* libraries must still be found */
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        return 12; /* as a library is mapped */
    if (!sandbox_forbid_files())
        return 7;
    if (open("/usr/lib/os-release", O_RDONLY) >= 0 || fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 ||
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED)
        return 13;
    char *const args[] = {"/bin/true", NULL};
    execv("/bin/true", args);
    return errno == EPERM ? hidden ? 0 : 20 : 8;
}

static void test_the_sandbox_holds(void **state)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(try_to_escape());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 20)
        print_message("this kernel has no Landlock: files are not hidden\n");
    else
        assert_int_equal(WEXITSTATUS(status), 0);
    (void)!system("rm -f /tmp/sluice-sandbox-*");
}

/* As an older kernel answers. */
static int enter_without_landlock(bool told)
{
    bool hidden = true;
    const char *why = "";
    const struct sandbox_limits l = {
        .cpu_s = 2, .memory_bytes = (size_t)256 << 20, .without_landlock = told};
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
    if (!c || seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0) ||
        seccomp_load(c) != 0)
        return 10;
    bool ok = sandbox_enter(&l, &hidden, &why);
    return ok != told || hidden ? 1 : ok || !strcmp(why, "Landlock") ? 0 : 2;
}

static void test_no_landlock_is_refused_unless_told(void **state)
{
    for (int told = 0; told <= 1; told++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(enter_without_landlock(told));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_in_any_usual_encoding),
        cmocka_unit_test(test_what_is_no_text_is_refused_in_words),
        cmocka_unit_test(test_type_is_by_content),
        cmocka_unit_test(test_docx_gives_its_words),
        cmocka_unit_test(test_odt_gives_its_words),
        cmocka_unit_test(test_hostile_documents_are_refused),
        cmocka_unit_test(test_the_sandbox_holds),
        cmocka_unit_test(test_no_landlock_is_refused_unless_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
