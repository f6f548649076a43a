/* Fragments of 16 x 16 of the matrix units, loaded from `pool` and stored to it: rows of W and X at a pitch of HALF_PITCH words, results
 * column by column at one of OUT_PITCH. coop_emulated.glsl has the same without the units. */
#include "coop.glsl"
#define FRAGMENT_UNROLL unroll /* for fragments are registers */
#define FRAGMENT_CLEAR(c) c = MatrixC(0.0);
#define FRAGMENT_A(m, at) coopMatLoadNV(m, pool, at, HALF_PITCH, false);
#define FRAGMENT_B(m, at) coopMatLoadNV(m, pool, at, HALF_PITCH, true);
#define FRAGMENT_ADD(c, a, b) c = coopMatMulAddNV(a, b, c);
#define FRAGMENT_STORE(c, at) coopMatStoreNV(c, pool, at, OUT_PITCH, true);
#define FRAGMENT_BARRIER      \
    subgroupMemoryBarrierShared(); \
    subgroupBarrier();
