/* Reserves address space for every record and populates it slot by slot, so that memory follows
 * the budget while addresses never move. */
#include "engine/experts/cache/expert_slots.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

int32_t expert_slots_count(const struct expert_layout *l)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->n_layers; i++)
        n += l->layers[i].n_expert;
    return n;
}

static int32_t find_class(const struct expert_slots *s, uint32_t bytes)
{
    int32_t c = 0;
    while (c < s->n_classes && s->classes[c].bytes != bytes)
        c++;
    return c;
}

static void make_classes(struct expert_slots *s, const struct expert_layout *l)
{
    for (int32_t i = 0; i < l->n_layers; i++) {
        int32_t c = find_class(s, l->layers[i].record_bytes);
        if (c == s->n_classes)
            s->classes[s->n_classes++].bytes = l->layers[i].record_bytes;
        s->class_of[i] = c;
        s->classes[c].n += l->layers[i].n_expert;
    }
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void *expert_slots_map(size_t bytes, struct err *e)
{
    size_t own = whole_pages(bytes), mapped = own + HUGE_PAGE;
    uint8_t *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        err_set(e, ERR_NOMEM, "no address space for %zu bytes of experts", bytes);
        return NULL;
    }
    size_t before = -(uintptr_t)map & (HUGE_PAGE - 1);
    if (before)
        munmap(map, before);
    munmap(map + before + own, mapped - before - own);
    madvise(map + before, own, MADV_HUGEPAGE);
    return map + before;
}

void expert_slots_unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, whole_pages(bytes));
}

static bool map_class(struct expert_slots *s, struct slot_class *c, int32_t first, struct err *e)
{
    c->memory = expert_slots_map((size_t)c->bytes * (size_t)c->n, e);
    if (!c->memory)
        return false;
    c->first = first;
    c->unused = malloc((size_t)c->n * sizeof *c->unused);
    if (!c->unused)
        return err_set(e, ERR_NOMEM, "no memory for a list of %d slots", c->n);
    for (int32_t i = 0; i < c->n; i++) {
        struct expert_slot *slot = &s->slots[first + i];
        slot->memory = c->memory + (size_t)i * c->bytes;
        slot->bytes = c->bytes;
        slot->size_class = (int32_t)(c - s->classes);
        slot->want = -1;
        c->unused[c->n_unused++] = first + c->n - 1 - i;
    }
    return true;
}

bool expert_slots_init(struct expert_slots *s, const struct expert_layout *l, struct err *e)
{
    *s = (struct expert_slots){.n = expert_slots_count(l)};
    if (l->n_layers < 1 || s->n < 1)
        return err_set(e, ERR_INTERNAL, "a layout without experts");
    s->slots = calloc((size_t)s->n, sizeof *s->slots);
    s->taken = calloc((size_t)s->n, sizeof *s->taken);
    s->classes = calloc((size_t)l->n_layers, sizeof *s->classes);
    s->class_of = calloc((size_t)l->n_layers, sizeof *s->class_of);
    if (!s->slots || !s->taken || !s->classes || !s->class_of) {
        expert_slots_fini(s);
        return err_set(e, ERR_NOMEM, "no memory for %d slots", s->n);
    }
    make_classes(s, l);
    for (int32_t c = 0, first = 0; c < s->n_classes; first += s->classes[c++].n)
        if (!map_class(s, &s->classes[c], first, e)) {
            expert_slots_fini(s);
            return false;
        }
    return true;
}

void expert_slots_fini(struct expert_slots *s)
{
    for (int32_t c = 0; s->classes && c < s->n_classes; c++) {
        expert_slots_unmap(s->classes[c].memory,
                           (size_t)s->classes[c].bytes * (size_t)s->classes[c].n);
        free(s->classes[c].unused);
    }
    free(s->classes);
    free(s->class_of);
    free(s->slots);
    free(s->taken);
    *s = (struct expert_slots){0};
}

/* Populates and locks the slot's pages. False: the system has no memory for them. */
static bool populate(struct expert_slots *s, struct expert_slot *slot)
{
    /* Populate before locking, because mlock() splits huge pages at the ends of the record. */
    if (madvise(slot->memory, slot->bytes, MADV_POPULATE_WRITE) &&
        errno == ENOMEM) { /* EINVAL: older kernels do not know it */
        madvise(slot->memory, slot->bytes, MADV_DONTNEED);
        return false;
    }
    if (!s->no_lock) {
        slot->locked = mlock(slot->memory, slot->bytes) == 0;
        s->no_lock = !slot->locked;
    }
    if (slot->locked)
        s->locked_bytes += slot->bytes;
    return true;
}

struct expert_slot *expert_slots_take(struct expert_slots *s, int32_t layer)
{
    struct slot_class *c = &s->classes[s->class_of[layer]];
    if (!c->n_unused)
        return NULL;
    struct expert_slot *slot = &s->slots[c->unused[c->n_unused - 1]];
    if (!populate(s, slot))
        return NULL;
    c->n_unused--;
    slot->at = s->n_taken;
    s->taken[s->n_taken++] = (int32_t)(slot - s->slots);
    s->bytes += slot->bytes;
    return slot;
}

void expert_slots_spare(struct expert_slots *s, struct expert_slot *slot)
{
    slot->state = SLOT_SPARE;
    s->n_spare++;
}

void expert_slots_unspare(struct expert_slots *s, struct expert_slot *slot)
{
    slot->state = SLOT_READING;
    s->n_spare--;
}

struct expert_slot *expert_slots_find_spare(const struct expert_slots *s, int32_t size_class)
{
    for (int32_t i = s->n_taken; s->n_spare && i-- > 0;) {
        struct expert_slot *slot = &s->slots[s->taken[i]];
        if (slot->state == SLOT_SPARE && (size_class < 0 || slot->size_class == size_class))
            return slot;
    }
    return NULL;
}

struct expert_slot *expert_slots_reuse(struct expert_slots *s, int32_t layer)
{
    struct expert_slot *slot = expert_slots_find_spare(s, s->class_of[layer]);
    if (slot)
        expert_slots_unspare(s, slot);
    return slot;
}

bool expert_slots_has_share(const struct expert_slots *s, int32_t size_class)
{
    const struct slot_class *c = &s->classes[size_class];
    return (int64_t)(c->n - c->n_unused + 1) * s->n > (int64_t)c->n * s->n_taken;
}

void expert_slots_release(struct expert_slots *s, struct expert_slot *slot)
{
    struct slot_class *c = &s->classes[slot->size_class];
    int32_t index = (int32_t)(slot - s->slots), last = s->taken[--s->n_taken];
    s->taken[slot->at] = last;
    s->slots[last].at = slot->at;
    s->bytes -= slot->bytes;
    if (slot->locked) {
        s->locked_bytes -= slot->bytes;
        munlock(slot->memory, slot->bytes);
    }
    madvise(slot->memory, slot->bytes, MADV_DONTNEED);
    slot->locked = slot->prefetched = slot->checksum_pending = false;
    slot->state = SLOT_FREE;
    slot->want = -1;
    slot->pins = 0;
    c->unused[c->n_unused++] = index;
}
