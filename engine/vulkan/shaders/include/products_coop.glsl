/* A tile's products on the matrix units: each subgroup of 32 threads 16 rows of W. Included by matmul.comp. */
#include "coop.glsl"

const uint FRAGMENTS = TN / 16;
MatrixC sums[FRAGMENTS], rest_sums[FRAGMENTS]; /* rest_sums: LOW_HALF_SCALE times what SPLIT adds */

/* Row of the tile whose halves lie in slot i. */
uint row_in_slot(uint i)
{
    return i;
}

/* A slice of one subgroup needs no one else. */
void slice_barrier()
{
    if (SLICE == 32) {
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    } else {
        barrier();
    }
}

void products_clear()
{
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
        sums[f] = rest_sums[f] = MatrixC(0.0);
    }
}

/* The step whose tiles begin at word `at`; n: rows of X that there are. */
void products_add(uint at, uint lane, uint n)
{
    [[unroll]] for (uint k = 0; k < K_TILE / 16; k++) {
        MatrixA a;
        coopMatLoadNV(a, pool, at + (lane / 32) * 16 * HALF_PITCH + k * 2, HALF_PITCH, false);
        [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
            MatrixB b;
            uint x = at + (X_AT + f * 16) * HALF_PITCH + k * 2;
            coopMatLoadNV(b, pool, x, HALF_PITCH, true);
            sums[f] = coopMatMulAddNV(a, b, sums[f]);
            if (SPLIT) {
                MatrixA a2;
                coopMatLoadNV(a2, pool, at + ((lane / 32) * 16 + TM) * HALF_PITCH + k * 2, HALF_PITCH, false);
                rest_sums[f] = coopMatMulAddNV(a2, b, rest_sums[f]);
                coopMatLoadNV(b, pool, x + TN * HALF_PITCH, HALF_PITCH, true);
                rest_sums[f] = coopMatMulAddNV(a, b, rest_sums[f]);
            }
        }
    }
}

/* Sums of the slice as [TN][OUT_PITCH] from word `at` on. */
void products_store(uint at, uint lane)
{
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
        if (SPLIT) {
            sums[f] = sums[f] + rest_sums[f] * (1.0 / LOW_HALF_SCALE);
        }
        coopMatStoreNV(sums[f], pool, at + f * 16 * OUT_PITCH + (lane / 32) * 4, OUT_PITCH, true);
    }
}
