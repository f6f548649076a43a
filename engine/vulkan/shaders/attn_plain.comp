#version 460
/* The same attention as attn_coop.comp, without matrix units: the threads multiply, in f32
 * A tile of rows (step.tiles: first row, count) times the G heads of one KV head is a matrix of up to 64 queries.
 * Prefill, after rope_kv. Packed K and V: attn_rotate finishes the rows.
 * Grid (n_kv_head, tiles); 128 threads. One pass over the blocks of KV with running maxima: for the scores a thread has 4 queries
 * and 4 tokens, for the weighted sums 4 or 8 queries and 8 columns. K and V of a block follow each other in the same memory. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = SPEC_GROUP) const uint G = 4;
layout(constant_id = SPEC_GATE) const bool GATE = false;
layout(constant_id = SPEC_SINKS) const bool SINKS = false;
layout(constant_id = SPEC_D_HEAD) const uint D = 64;
#include "kv_packed.glsl"

#define PUSH_ATTN_TILED
#include "push.h"

const uint TOKENS = 32; /* of a KV block */
const uint QUERIES = 64;
const uint THREADS = 128;
const uint ROW4 = D / 8;               /* 16-byte words of a row of Q, K or V: 8, 12 or 16 */
const uint SIDE = ROW4 > 8 ? 16 : 8;   /* threads whose columns make up a row of sums */
const uint MINE = QUERIES * SIDE / THREADS;
const uint WEIGHT_PITCH = QUERIES / 4 + 1;
const uint LOADS = TOKENS * ROW4 / THREADS;
const float NONE = -1.0e30;
shared uvec4 queries[QUERIES * ROW4], block[TOKENS * ROW4];
shared uvec2 weights[TOKENS * WEIGHT_PITCH]; /* of a token for 4 queries, halves */
shared vec4 parts[8 * (QUERIES / 4)];        /* what each of 8 threads found for 4 queries */
shared vec4 shares[QUERIES / 4];             /* what is left of earlier sums; at the end the maxima */

/* Word w of a row: rows that are read together lie in different banks. */
uint place(uint row, uint w)
{
    return row * ROW4 + (w ^ (row & (ROW4 % 8 == 0 ? 7 : 3)));
}

/* One half (K or V) of a KV block. */
void block_load(int at, uint is_v, uint kv_head, out uvec4 v[LOADS])
{
    if (KV_PACKED) {
        uint head_part = packed_part(uint(at), p.n_kv_head, kv_head);
        [[unroll]] for (uint k = 0; k < LOADS; k++) {
            uint i = gl_LocalInvocationIndex + k * THREADS;
            v[k] = packed_load(U32(uint64_t(p.kv)), head_part, is_v, i / ROW4, i % ROW4 * 8, true);
        }
        return;
    }
    uint first = ((uint(at) * 2 + is_v) * p.n_kv_head + kv_head) * TOKENS * ROW4;
    [[unroll]] for (uint k = 0; k < LOADS; k++) {
        v[k] = p.kv.at[first + gl_LocalInvocationIndex + k * THREADS];
    }
}

void block_store(uvec4 v[LOADS], uint is_v)
{
    [[unroll]] for (uint k = 0; k < LOADS; k++) {
        uint i = gl_LocalInvocationIndex + k * THREADS;
        block[place(i / ROW4, i % ROW4)] = KV_PACKED ? packed_halves(v[k], is_v) : v[k];
    }
}

void unpack_word(uvec4 w, out vec4 low, out vec4 high)
{
    low = vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    high = vec4(unpackHalf2x16(w.z), unpackHalf2x16(w.w));
}

vec4 parts_max(uint four, vec4 most)
{
    [[unroll]] for (uint k = 0; k < 8; k++) {
        most = max(most, parts[k * (QUERIES / 4) + four]);
    }
    return most;
}

vec4 parts_sum(uint four)
{
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint k = 0; k < 8; k++) {
        sum += parts[k * (QUERIES / 4) + four];
    }
    return sum;
}

void main()
{
    uint kv_head = gl_WorkGroupID.x, tid = gl_LocalInvocationIndex;
    ivec4 tile = p.tiles.at[gl_WorkGroupID.y];
    uint first_row = uint(tile.x), n_queries = uint(tile.y) * G;
    if (tile.y == 0) {
        return;
    }
    /* Q: query i is row i / G, head i % G */
    for (uint i = tid; i < QUERIES * ROW4; i += THREADS) {
        uint query = i / ROW4, row = first_row + min(query, n_queries - 1) / G, head = kv_head * G + query % G;
        F32x4 q = F32x4(uint64_t(p.qkv) + 4ul * (row * p.stride + head * p.q_step));
        vec4 a = q.at[i % ROW4 * 2] * p.scale, b = q.at[i % ROW4 * 2 + 1] * p.scale;
        queries[place(query, i % ROW4)] = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
    }
    uint four = tid / 8, part = tid % 8;           /* scores: queries 4 four .., tokens part, part + 8 .. */
    uint side = tid % SIDE, first = tid / SIDE * MINE; /* sums: queries first .., columns 8 side .. */
    ivec4 position;
    [[unroll]] for (uint r = 0; r < 4; r++) {
        position[r] = p.rows.at[first_row + min(four * 4 + r, n_queries - 1) / G].y;
    }
    ivec4 row0 = p.rows.at[first_row], last = p.rows.at[first_row + uint(tile.y) - 1];
    int oldest = row0.y - int(p.window) + 1;
    uint begin = p.window == 0 ? 0 : uint(max(oldest, 0)) / TOKENS, end = uint(last.y) / TOKENS + 1;
    vec4 most = vec4(NONE), denominator = vec4(0.0); /* the denominators of this thread's tokens alone */
    vec4 low_sum[MINE], high_sum[MINE];
    [[unroll]] for (uint i = 0; i < MINE; i++) {
        low_sum[i] = high_sum[i] = vec4(0.0);
    }
    uvec4 k4[LOADS], v4[LOADS];
    block_load(p.tables.at[row0.z + int(begin)], 0, kv_head, k4);
    [[dont_unroll]] for (uint b = begin; b < end; b++) {
        barrier(); /* sums of the block before are done */
        block_store(k4, 0);
        barrier();
        block_load(p.tables.at[row0.z + int(b)], 1, kv_head, v4);
        if (b + 1 < end) {
            block_load(p.tables.at[row0.z + int(b + 1)], 0, kv_head, k4);
        }
        vec4 s[4]; /* of a token, 4 queries */
        [[unroll]] for (uint i = 0; i < 4; i++) {
            s[i] = vec4(0.0);
        }
        [[dont_unroll]] for (uint w = 0; w < ROW4; w++) {
            mat4 low, high;
            [[unroll]] for (uint r = 0; r < 4; r++) {
                unpack_word(queries[place(four * 4 + r, w)], low[r], high[r]);
            }
            [[unroll]] for (uint i = 0; i < 4; i++) {
                vec4 a, c;
                unpack_word(block[place(part + 8 * i, w)], a, c);
                s[i] += a * low + c * high; /* a row times a matrix: the products with its columns */
            }
        }
        vec4 top = vec4(NONE);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            int j = int(b * TOKENS + part + 8 * i);
            bvec4 seen = lessThanEqual(ivec4(j), position);
            bvec4 far = lessThanEqual(ivec4(j), position - int(p.window));
            [[unroll]] for (uint r = 0; r < 4; r++) {
                s[i][r] = seen[r] && !(p.window != 0 && far[r]) ? s[i][r] : NONE;
            }
            top = max(top, s[i]);
        }
        parts[part * (QUERIES / 4) + four] = top;
        barrier(); /* K is done too */
        block_store(v4, 1);
        vec4 now = parts_max(four, most), left = exp(most - now);
        denominator *= left;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            vec4 e = mix(vec4(0.0), exp(s[i] - now), greaterThan(s[i], vec4(0.1 * NONE)));
            denominator += e;
            weights[(part + 8 * i) * WEIGHT_PITCH + four] = uvec2(packHalf2x16(e.xy), packHalf2x16(e.zw));
        }
        most = now;
        if (part == 0) {
            shares[four] = left;
        }
        barrier();
        if (side < ROW4) {
            [[unroll]] for (uint i = 0; i < MINE; i++) {
                float share = shares[(first + i) / 4][i % 4];
                low_sum[i] *= share;
                high_sum[i] *= share;
            }
            [[dont_unroll]] for (uint t = 0; t < TOKENS; t++) {
                vec4 a, c;
                unpack_word(block[place(t, side)], a, c);
                [[unroll]] for (uint g = 0; g < MINE / 4; g++) {
                    uvec2 w = weights[t * WEIGHT_PITCH + first / 4 + g];
                    vec4 e = vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
                    [[unroll]] for (uint r = 0; r < 4; r++) {
                        low_sum[g * 4 + r] = fma(vec4(e[r]), a, low_sum[g * 4 + r]);
                        high_sum[g * 4 + r] = fma(vec4(e[r]), c, high_sum[g * 4 + r]);
                    }
                }
            }
        }
    }
    barrier();
    parts[part * (QUERIES / 4) + four] = denominator;
    if (part == 0) {
        shares[four] = most;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < MINE; i++) {
        uint query = first + i, head = kv_head * G + query % G, row = first_row + query / G;
        float sum = parts_sum(query / 4)[i % 4];
        if (query < n_queries && side < ROW4) {
            if (SINKS) {
                sum += exp(p.sinks.at[head] - shares[query / 4][i % 4]);
            }
            vec4 a = low_sum[i] / sum, c = high_sum[i] / sum;
            if (GATE) {
                F32x4 gate = F32x4(uint64_t(p.qkv) + 4ul * (row * p.stride + head * p.q_step + D));
                vec4 x = gate.at[side * 2], y = gate.at[side * 2 + 1];
                a /= 1.0 + exp(-x);
                c /= 1.0 + exp(-y);
            }
            F32x4 o = F32x4(uint64_t(p.outs) + 4ul * ((row * p.n_head + head) * D));
            o.at[side * 2] = a;
            o.at[side * 2 + 1] = c;
        }
    }
}
