/* coop_fragments.glsl on plain arithmetic, for tests of what lies around it where there are no matrix units: a fragment of W or X
 * is where it lies in shared memory, and each of 32 threads sums half a row. Subgroups may have any size.
 * Results are in memory, so loops over fragments stay loops: that compiles in a third of the time. */
#define FRAGMENT_UNROLL dont_unroll
#define MatrixA uint
#define MatrixB uint
struct MatrixC {
    float at[8];
};
#define FRAGMENT_CLEAR(c)                     \
    [[unroll]] for (uint z = 0; z < 8; z++) { \
        c.at[z] = 0.0;                        \
    }
#define FRAGMENT_A(m, from) m = from;
#define FRAGMENT_B(m, from) m = from;
#define FRAGMENT_ADD(c, a, b)                                                                                                   \
    [[dont_unroll]] for (uint z = 0; z < 16; z++) {                                                                             \
        uint half_row = gl_LocalInvocationIndex % 32;                                                                           \
        uvec4 u = pool[a + half_row / 2 * HALF_PITCH + z % 2], v = pool[b + (half_row % 2 * 8 + z / 2) * HALF_PITCH + z % 2];   \
        [[unroll]] for (uint q = 0; q < 4; q++) {                                                                               \
            c.at[z / 2] += dot(unpackHalf2x16(u[q]), unpackHalf2x16(v[q]));                                                     \
        }                                                                                                                       \
    }
#define FRAGMENT_STORE(c, to)                                                                                                   \
    [[unroll]] for (uint z = 0; z < 8; z++) {                                                                                   \
        uint half_row = gl_LocalInvocationIndex % 32;                                                                           \
        pool[to + (half_row % 2 * 8 + z) * OUT_PITCH + half_row / 8][half_row / 2 % 4] = floatBitsToUint(c.at[z]);              \
    }
#define FRAGMENT_BARRIER barrier();
