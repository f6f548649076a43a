/* golden_cases.h: the golden models that are here. */
#include "tests/golden/golden_cases.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"

#define MAX_FAMILIES 64

/* Appends one family's forms to the n cases; returns how many there are then. */
static int add_cases(struct golden_case *cases, int n, int max, const char *root,
                     const char *family, const char *only)
{
    struct err e = {0};
    char path[2048];
    struct golden_case c = {0};
    snprintf(c.family, sizeof c.family, "%.60s", family);
    snprintf(c.dir, sizeof c.dir, "%.900s/%.60s", root, family);
    if (!file_join(path, sizeof path, c.dir, "golden.json", &e) || !file_exists(path))
        return n;
    cJSON *json = json_parse_file(path, 1 << 22, &e);
    const cJSON *form, *forms = json ? json_member(json, "forms") : NULL;
    cJSON_ArrayForEach (form, forms) {
        const cJSON *files = json_member(form, "files");
        snprintf(c.form, sizeof c.form, "%.60s", form->string);
        snprintf(c.name, sizeof c.name, "%.60s %.60s", family, form->string);
        if (!cJSON_IsString(files) ||
            !file_join(c.model, sizeof c.model, c.dir, files->valuestring, &e))
            continue;
        if (n < max && file_exists(c.model) && (!only || !strcmp(only, c.form)))
            cases[n++] = c;
    }
    cJSON_Delete(json);
    return n;
}

int golden_cases_list(struct golden_case *cases, int max, const char *root, const char *only)
{
    DIR *d = opendir(root);
    char names[MAX_FAMILIES][64];
    int n = 0, n_cases = 0;
    for (struct dirent *one; d && (one = readdir(d));)
        if (one->d_name[0] != '.' && n < MAX_FAMILIES)
            snprintf(names[n++], sizeof names[0], "%.60s", one->d_name);
    if (d)
        closedir(d);
    qsort(names, (size_t)n, sizeof names[0], (int (*)(const void *, const void *))strcmp);
    for (int i = 0; i < n; i++)
        n_cases = add_cases(cases, n_cases, max, root, names[i], only);
    return n_cases;
}
