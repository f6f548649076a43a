/* Which files of a repository are meant: of one with GGUF files those of one quantization, else
 * all.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "fcgi/cli/pull/pull.h"

#define PART_TAIL "-00001-of-00003"

/* The length of the name without .gguf and, of a split model, without its part's number; 0: no
 * model. */
static size_t stem_len(const char *name)
{
    const char *base = file_base_name(name);
    size_t n = strlen(name), tail = sizeof PART_TAIL - 1;
    if (n < 6 || strcasecmp(name + n - 5, ".gguf") || !strncasecmp(base, "mmproj", 6) ||
        strcasestr(base, "imatrix"))
        return 0;
    n -= 5;
    if (n > tail && !strncmp(name + n - 9, "-of-", 4) && name[n - tail] == '-' &&
        strspn(name + n - 5, "0123456789") >= 5)
        n -= tail;
    return n;
}

/* Whether the quantization stands in the stem as a word of its own: Q4_K is not in Q4_K_M. */
static bool has_quant(const char *name, size_t stem, const char *quant)
{
    const size_t n = strlen(quant);
    const char *base = file_base_name(name);
    for (const char *at = base; at + n <= name + stem; at++) {
        char after = at + n < name + stem ? at[n] : '.';
        char before = at > base ? at[-1] : '.';
        if (!strncasecmp(at, quant, n) && !isalnum((unsigned char)before) && before != '_' &&
            !isalnum((unsigned char)after) && after != '_')
            return true;
    }
    return false;
}

struct found {
    const char *name; /* NULL: none */
    size_t stem;
    bool several; /* of the same length: nobody can say which */
};

static bool same_stem(const struct found *f, const char *name, size_t stem)
{
    return f->name && f->stem == stem && !strncmp(f->name, name, stem);
}

/* The model with the shortest name wins: UD-Q4_K_XL is another one than Q4_K_XL. quant NULL: any.
 */
static struct found find(const struct pull *p, const char *quant)
{
    struct found f = {0};
    for (size_t i = 0; i < p->n_files; i++) {
        const char *name = p->files[i].name;
        size_t stem = stem_len(name);
        if (!stem || same_stem(&f, name, stem) || (quant && !has_quant(name, stem, quant)))
            continue;
        bool shorter = f.name && stem < f.stem, equal = f.name && stem == f.stem;
        if (!f.name || shorter)
            f = (struct found){name, stem, !quant && f.name};
        else
            f.several |= equal || !quant;
    }
    return f;
}

static bool name_them(const struct pull *p, const char *quant, struct err *e)
{
    struct buf b = {0};
    int n = 0;
    struct found last = {0};
    for (size_t i = 0; i < p->n_files; i++) {
        size_t stem = stem_len(p->files[i].name);
        if (!stem || same_stem(&last, p->files[i].name, stem))
            continue;
        last = (struct found){p->files[i].name, stem, false};
        const char *base = file_base_name(last.name), *word = last.name + stem;
        while (word > base && word[-1] != '-' && word[-1] != '.')
            word--;
        if (n++ < 12)
            buf_printf(&b, "%s%.*s", n > 1 ? ", " : "", (int)(last.name + stem - word), word);
    }
    if (*quant)
        err_set(e, ERR_NOTFOUND, "%.100s has no %.40s; it has %.150s%s", p->repo, quant,
                b.data ? b.data : "", n > 12 ? ", ..." : "");
    else
        err_set(e, ERR_NOTFOUND, "which one? write hf.co/%.100s:NAME with one of %.150s%s", p->repo,
                b.data ? b.data : "", n > 12 ? ", ..." : "");
    buf_fini(&b);
    return false;
}

static void keep_only(struct pull *p, const struct found *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n_files; i++) {
        size_t stem = stem_len(p->files[i].name);
        if (stem && same_stem(f, p->files[i].name, stem))
            p->files[kept++] = p->files[i];
        else
            free(p->files[i].name);
    }
    p->n_files = kept;
}

bool pull_choose(struct pull *p, const char *quant, struct err *e)
{
    static const char *const usual[] = {"Q4_K_M", "MXFP4", "Q4_K_S", "Q8_0"};
    struct found f = find(p, NULL), of = {0};
    if (!f.name)
        return !*quant || err_set(e, ERR_NOTFOUND,
                                  "%.150s has no GGUF files, so no %.40s; write its name without "
                                  "':'",
                                  p->repo, quant);
    bool one = !f.several;
    for (size_t i = 0; !*quant && !one && !of.name && i < sizeof usual / sizeof usual[0]; i++)
        if ((of = find(p, usual[i])).name)
            p->chosen = usual[i];
    if (*quant)
        of = find(p, quant);
    else if (one)
        of = f;
    if (!of.name)
        return name_them(p, quant, e);
    if (of.several)
        return err_set(e, ERR_CONFLICT,
                       "%.150s has more than one model of %.40s; `sluice pull %.100s --include "
                       "NAME.gguf` loads one",
                       p->repo, *quant ? quant : "that kind", p->repo);
    keep_only(p, &of);
    return true;
}
