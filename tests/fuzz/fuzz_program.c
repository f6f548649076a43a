/* Compiled grammars as they come over the engine's socket: rubbish is refused, and what is taken
 * can be walked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/automaton.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct program p;
    struct automaton a;
    struct err e = {0};
    void *copy = malloc(size + 1); /* aligned */
    memcpy(copy, data, size);
    if (!program_open(&p, copy, size, 1000, &e)) {
        if (e.code == ERR_NONE)
            abort();
    } else if (automaton_init(&a, &p, &e)) {
        uint32_t state = a.start;
        automaton_allow(&a, 20000);
        for (size_t i = 0; i < 200 && state > STATE_DEAD; i++) {
            uint32_t next = automaton_step(&a, state, data[i % size]);
            for (uint32_t k = 0; k < 256 && next == STATE_DEAD; k++)
                next = automaton_step(&a, state, (uint8_t)k);
            if (next == STATE_DEAD)
                next = automaton_step_token(&a, state, data[i % size]);
            state = next;
        }
        automaton_fini(&a);
    } else if (e.code != ERR_LIMIT && e.code != ERR_NOMEM) {
        abort();
    }
    free(copy);
    return 0;
}
