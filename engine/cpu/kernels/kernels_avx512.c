/* Kernels for CPUs with avx512; compiled with flags of its own, called only where the CPU reports
 * it. */
#include "engine/cpu/kernels/simd_avx512.h"

#define KERNELS avx512
#include "engine/cpu/kernels/kernels_simd.h"
