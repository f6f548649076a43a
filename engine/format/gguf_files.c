/* Names of GGUF files: parts of a split model, and the model that a folder holds. */
#include <dirent.h>
#include <limits.h>
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

/* Models in a folder, the last one's path in `out`; also those one folder below, if `deeper`. -1:
 * it can't be opened. */
static int find_models(const char *folder, bool deeper, char *out, size_t size)
{
    DIR *d = opendir(folder);
    char path[PATH_MAX];
    int found = 0, number;
    if (!d)
        return -1;
    for (struct dirent *one; (one = readdir(d));) {
        if (one->d_name[0] == '.' || !file_join(path, sizeof path, folder, one->d_name, NULL))
            continue;
        if (ends_with_gguf(one->d_name)) {
            if (!strncmp(one->d_name, "mmproj", 6) ||
                (gguf_split_of(one->d_name, &number) && number != 1))
                continue;
            snprintf(out, size, "%s", path);
            found++;
        } else if (deeper) {
            const int below = find_models(path, false, out, size);
            found += below > 0 ? below : 0;
        }
    }
    closedir(d);
    return found;
}

bool gguf_in_folder(const char *folder, char *out, size_t size, struct err *e)
{
    int found = find_models(folder, false, out, size);
    if (found == 0) /* hubs have a folder for each quantization */
        found = find_models(folder, true, out, size);
    if (found < 0)
        return err_errno(e, "opening the model folder");
    if (found > 1)
        return err_set(e, ERR_INPUT, "the folder holds %d GGUF models; name one of the files",
                       found);
    return found == 1 ||
           err_set(e, ERR_NOTFOUND, "no model: the folder has neither config.json nor a GGUF file");
}
