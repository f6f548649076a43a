/* Which kernels this build and this CPU have. */
#include "engine/cpu/kernels/kernels.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct kernels *chosen; /* NULL: the best */

#ifdef SLUICE_CPU_X86
extern const struct kernels kernels_avx2, kernels_avx512, kernels_avx512vnni;

static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

static bool has_avx512(void)
{
    __builtin_cpu_init();
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

const struct kernels *kernels_available(int i)
{
    const struct kernels *found[5];
    int n = 0;
#ifdef SLUICE_CPU_X86
    if (has_vnni())
        found[n++] = &kernels_avx512vnni;
    if (has_avx512())
        found[n++] = &kernels_avx512;
    if (has_avx2())
        found[n++] = &kernels_avx2;
#endif
    found[n++] = &kernels_generic;
    return i < n ? found[i] : NULL;
}

const struct kernels *kernels_best(void)
{
    return chosen ? chosen : kernels_available(0);
}

bool kernels_choose(const char *name, struct err *e)
{
    char names[64] = "";
    for (int i = 0; kernels_available(i); i++) {
        const struct kernels *k = kernels_available(i);
        if (!strcmp(k->name, name)) {
            chosen = k;
            return true;
        }
        size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", k->name);
    }
    return err_set(e, ERR_INPUT, "this processor can't run the %s kernels; it has %s", name, names);
}
