/* A form with a file in it: the first line is its Content-Type. And what is made of the file's
 * name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "fcgi/http/file_name.h"
#include "fcgi/http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char type[256], name[FILE_NAME_SIZE], header[FILE_DISPOSITION_SIZE];
    struct multipart_part file;
    struct err e = {0};
    const uint8_t *line = memchr(data, '\n', size);
    if (!line || (size_t)(line - data) >= sizeof type)
        return 0;
    memcpy(type, data, (size_t)(line - data));
    type[line - data] = '\0';
    size -= (size_t)(line - data) + 1;
    char *form = malloc(size ? size : 1); /* its own, so that a byte read past the end is seen */
    memcpy(form, line + 1, size);
    if (multipart_find(form, size, type, &file, &e)) {
        if (file.data < form || file.data + file.len > form + size)
            abort();
        file_name_clean(file.file_name, strlen(file.file_name), name);
        size_t n = strlen(name);
        if (!n || utf8_valid((const unsigned char *)name, n) != n)
            abort();
        file_name_disposition("attachment", name, header);
        for (const char *c = header; *c; c++)
            if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
                abort();
    }
    free(form);
    return 0;
}
