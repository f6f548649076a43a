/* Names of GGUF files: parts of a split model, and the model that a folder holds. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "engine/format/gguf.h"

int gguf_split_of(const char *name, int *number)
{
    size_t n = strlen(name), tail = sizeof GGUF_SPLIT_TAIL - 1;
    int total = 0, used = 0;
    if (n <= tail || sscanf(name + n - tail, "-%5d-of-%5d.gguf%n", number, &total, &used) != 2 ||
        used != (int)tail)
        return 0;
    return total;
}

static bool ends_with_gguf(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && name[0] != '.' && !strcmp(name + n - 5, ".gguf");
}

bool gguf_in_folder(const char *folder, char *out, size_t size, struct err *e)
{
    DIR *d = opendir(folder);
    if (!d)
        return err_errno(e, "opening the model folder");
    int found = 0, number;
    char name[256] = "";
    for (struct dirent *one; (one = readdir(d));) {
        if (!ends_with_gguf(one->d_name) || !strncmp(one->d_name, "mmproj", 6) ||
            (gguf_split_of(one->d_name, &number) && number != 1))
            continue;
        snprintf(name, sizeof name, "%s", one->d_name);
        found++;
    }
    closedir(d);
    if (found > 1)
        return err_set(e, ERR_INPUT, "the folder holds %d GGUF models; name one of the files",
                       found);
    if (!found)
        return err_set(e, ERR_NOTFOUND,
                       "no model: the folder has neither config.json nor a GGUF file");
    return file_join(out, size, folder, name, e);
}
