/* guarded.h: whole pages, the last of them without rights; right before the memory, where they are.
 */
#include "guarded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct place {
    char *map;
    size_t bytes;
};

void *guarded_alloc(size_t bytes, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 all = (bytes + align + sizeof(struct place) + page - 1) / page * page;
    struct place p = {.bytes = all + page};
    p.map = mmap(NULL, p.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)p.map != MAP_FAILED);
    assert_int_equal(mprotect(p.map + all, page, PROT_NONE), 0);
    char *at = p.map + all - bytes;
    at -= (uintptr_t)at % align;
    memcpy(at - sizeof p, &p, sizeof p);
    return at;
}

void guarded_free(void *at)
{
    struct place p;
    if (!at)
        return;
    memcpy(&p, (char *)at - sizeof p, sizeof p);
    const uintptr_t offset = (uintptr_t)at - (uintptr_t)p.map;
    assert_true((uintptr_t)p.map % (uintptr_t)sysconf(_SC_PAGESIZE) == 0 && offset < p.bytes);
    assert_int_equal(munmap(p.map, p.bytes), 0);
}
