/* Kernels for CPUs with avx2; compiled with flags of its own, called only where the CPU reports it.
 */
#include "engine/cpu/kernels/simd_avx2.h"

#define KERNELS avx2
#include "engine/cpu/kernels/kernels_simd.h"
