#version 460
/* The products of matmul.comp with SPLIT for few rows of X and a large W of WHOLE_CODES, as the head's: Y[t, r] (+)= sum_c W[r, c] X[t, c] with
 * f32 precision; ADD, BIAS as there. Both sides are two halves each, the second what rounding to the first lost, times LOW_HALF_SCALE.
 * What bounds it should be the bytes of W: each 32 threads take 16 rows of W and all columns, from memory to the units' registers as in
 * moe_few.comp. X comes from the caches.
 * Grid (rows of X / (8 GROUPS), rows / (threads / 2)): who reads the same W comes one after another. */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WANT_HALVES
#include "common.glsl"
#include "quant.glsl"
#include "coop_registers.glsl"
layout(constant_id = SPEC_ADD) const bool ADD = false;
layout(constant_id = SPEC_BIAS) const bool BIAS = false;
layout(constant_id = SPEC_GROUPS) const uint GROUPS = 1; /* of 8 rows of X */
layout(constant_id = SPEC_CHUNKS) const uint CHUNKS = 64; /* of a row: p.n_chunk */
layout(constant_id = SPEC_DEPTH) const uint DEPTH = 2;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Tiles { uvec4 at[]; };

#define PUSH_MATMUL
#include "push.h"

const uint STEPS = (CHUNKS + 3) / 4;
Packed low[DEPTH], high[DEPTH]; /* rows g and g + 8 of the steps that follow */
MatrixSum c[GROUPS], rest[GROUPS];

uint lane()
{
    return gl_LocalInvocationIndex % 32;
}

/* Asks for the thread's chunks of a step. */
void fetch(uint first, uint second, uint s, out Packed a, out Packed b)
{
    uint chunk = min(s * 4 + lane() % 4, CHUNKS - 1);
    a = packed_load(p.w, first + chunk);
    b = packed_load(p.w, second + chunk);
}

/* Step k, whose chunks are a and b, times n rows of X from `from` on. */
void multiply(Packed a, Packed b, uint k, uint from, uint n)
{
    uint chunk = k * 4 + lane() % 4;
    bool inside = CHUNKS % 4 == 0 || chunk < CHUNKS;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 ah, al, bh, bl;
        packed_whole_two_word(a, i, ah, al);
        packed_whole_two_word(b, i, bh, bl);
        [[unroll]] for (uint g = 0; g < GROUPS; g++) {
            uint at = ((from + min(g * 8 + lane() / 4, n - 1)) * CHUNKS + min(chunk, CHUNKS - 1)) * 4 + i;
            uvec4 x = p.x.at[at], z = p.rest.at[at];
            if (!inside) {
                x = z = uvec4(0);
            }
            PRODUCT_ADD(c[g], ah.xy, bh.xy, x.xy)
            PRODUCT_ADD(rest[g], al.xy, bl.xy, x.xy)
            PRODUCT_ADD(rest[g], ah.xy, bh.xy, z.xy)
            PRODUCT_ADD(c[g], ah.zw, bh.zw, x.zw)
            PRODUCT_ADD(rest[g], al.zw, bl.zw, x.zw)
            PRODUCT_ADD(rest[g], ah.zw, bh.zw, z.zw)
        }
    }
}

void main()
{
    uint from = gl_WorkGroupID.x * GROUPS * 8, n = min(GROUPS * 8, p.n_x - from), g = lane() / 4;
    uint first = gl_WorkGroupID.y * (gl_WorkGroupSize.x / 2) + gl_LocalInvocationIndex / 32 * 16;
    uint at = min(first + g, p.rows - 1) * CHUNKS, other = min(first + g + 8, p.rows - 1) * CHUNKS;
    [[unroll]] for (uint i = 0; i < DEPTH; i++) {
        fetch(at, other, min(i, STEPS - 1), low[i], high[i]);
    }
    [[unroll]] for (uint i = 0; i < GROUPS; i++) {
        PRODUCT_CLEAR(c[i])
        PRODUCT_CLEAR(rest[i])
    }
    [[dont_unroll]] for (uint k0 = 0; k0 < STEPS; k0 += DEPTH) {
        [[unroll]] for (uint i = 0; i < DEPTH; i++) { /* whose words stay where they arrive */
            uint k = k0 + i;
            if (STEPS % DEPTH == 0 || k < STEPS) {
                multiply(low[i], high[i], k, from, n);
                if (k + DEPTH < STEPS) {
                    fetch(at, other, k + DEPTH, low[i], high[i]);
                }
            }
        }
    }
    [[unroll]] for (uint i = 0; i < GROUPS; i++) {
        vec4 v = PRODUCT_VALUES(c[i]) + PRODUCT_VALUES(rest[i]) * (1.0 / LOW_HALF_SCALE);
        [[unroll]] for (uint j = 0; j < 4; j++) {
            uint row = first + g + j / 2 * 8, column = i * 8 + lane() % 4 * 2 + j % 2;
            if (column < n && row < p.rows) {
                uint to = (from + column) * p.y_stride + row;
                float r = BIAS ? v[j] + p.bias.at[row] : v[j];
                p.y.at[to] = ADD ? p.y.at[to] + r : r;
            }
        }
    }
}
