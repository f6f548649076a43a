/* What the engine reaches: its model, its caches, its GPU, and nothing of the state folder. So a
 * mistake in what reads model files, or in a driver, opens neither the database nor its keys.
 *
 * The socket, the status page and the log are opened before; afterwards they can't be removed or
 * made anew, because the folder that they lie in is no longer writable. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct engine_walls {
    const char *model;                        /* folder or file */
    const char *draft_model;                  /* NULL: none, or in the model's folder */
    const char *cache_dir, *prompt_cache_dir; /* NULL: none */
    bool without_landlock, without_seccomp;
};

/* Called when the device's driver has been loaded once: it may need to run a program (NVIDIA's
 * does, to load its kernel module), which is forbidden from here on. */
bool engine_walls_enter(const struct engine_walls *w, struct err *e);
/* When the model is loaded: no more rings. */
void engine_walls_loaded(bool without_seccomp);
