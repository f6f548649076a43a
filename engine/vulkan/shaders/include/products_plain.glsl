/* A tile's products without matrix units: each thread 4 rows of W times TN / 8 rows of X, in f32. Included by matmul.comp.
 * Neighbouring threads take neighbouring slots of W's tile, which hold every fourth row of it, so that a thread's sums are of
 * four rows that follow each other. */
const uint THREAD_COLS = TN / 8;
vec4 sums[THREAD_COLS]; /* of 4 rows */

/* Row of the tile whose halves lie in slot i. */
uint row_in_slot(uint i)
{
    return i % (TM / 4) * 4 + i / (TM / 4);
}

/* A subgroup may be smaller or larger than a slice. */
void slice_barrier()
{
    barrier();
}

void products_clear()
{
    [[unroll]] for (uint c = 0; c < THREAD_COLS; c++) {
        sums[c] = vec4(0.0);
    }
}

void unpack_word(uvec4 w, out vec4 low, out vec4 high)
{
    low = vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    high = vec4(unpackHalf2x16(w.z), unpackHalf2x16(w.w));
}

/* 8 columns of a row; with SPLIT also what rounding them lost, `planes` rows further on. */
void load_word(uint at, uint planes, out vec4 low, out vec4 high)
{
    unpack_word(pool[at], low, high);
    if (SPLIT) {
        vec4 l, h;
        unpack_word(pool[at + planes * HALF_PITCH], l, h);
        low += l * (1.0 / LOW_HALF_SCALE);
        high += h * (1.0 / LOW_HALF_SCALE);
    }
}

/* 8 columns of 4 rows of W times those of a row of X. */
void add_column(uint c, uint x, vec4 low[4], vec4 high[4])
{
    vec4 a, b;
    load_word(x, TN, a, b);
    [[unroll]] for (uint r = 0; r < 4; r++) {
        [[unroll]] for (uint i = 0; i < 4; i++) {
            sums[c][r] = fma(low[r][i], a[i], sums[c][r]);
        }
        [[unroll]] for (uint i = 0; i < 4; i++) {
            sums[c][r] = fma(high[r][i], b[i], sums[c][r]);
        }
    }
}

/* The step whose tiles begin at word `at`, of the first 8 COLS rows of X: COLS is a constant, so that sums stay in registers. */
#define ADD_COLUMNS(COLS)                                                                                        \
    [[dont_unroll]] for (uint k = 0; k < K_TILE / 8; k++) {                                                      \
        vec4 low[4], high[4];                                                                                    \
        [[unroll]] for (uint r = 0; r < 4; r++) {                                                                \
            load_word(w + r * (TM / 4) * HALF_PITCH + k, TM, low[r], high[r]);                                   \
        }                                                                                                        \
        [[unroll]] for (uint c = 0; c < COLS; c++) {                                                             \
            add_column(c, x + c * 8 * HALF_PITCH + k, low, high);                                                \
        }                                                                                                        \
    }

/* n: rows of X that there are. A question for each column would cost full tiles a fifth. */
void products_add(uint at, uint lane, uint n)
{
    uint w = at + lane % (TM / 4) * HALF_PITCH, x = at + (X_AT + lane / (TM / 4)) * HALF_PITCH;
    if (n > TN / 2) {
        ADD_COLUMNS(THREAD_COLS)
    } else {
        ADD_COLUMNS(THREAD_COLS / 2)
    }
}

/* Sums of the slice as [TN][OUT_PITCH] from word `at` on. */
void products_store(uint at, uint lane)
{
    [[unroll]] for (uint c = 0; c < THREAD_COLS; c++) {
        pool[at + (lane / (TM / 4) + c * 8) * OUT_PITCH + lane % (TM / 4)] = floatBitsToUint(sums[c]);
    }
}
