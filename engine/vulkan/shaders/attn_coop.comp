#version 460
/* The same attention as attn.comp for runs of rows of one sequence, on the matrix units
 * A tile of rows (step.tiles: first row, count) times the G heads of one KV head is a matrix of up to 64 queries.
 * Prefill, after rope_kv. Packed K and V: attn_rotate finishes the rows.
 * Grid (n_kv_head, tiles, D / DV); 4 subgroups of 32 threads, 16 queries each, which sum DV columns of V.
 * One pass over the context, STEP tokens at a time. Scores stay where the units leave them: less the query's maximum so far, their
 * powers of two go to shared memory as halves. A maximum is allowed to be too small by 2^SLACK, so that it, and with it all sums,
 * seldom changes; only then, and where tokens are hidden, does a subgroup look at scores query by query. Denominators are sums on the
 * matrix units too, by a matrix of ones, and of the same halves. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "coop.glsl"
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
const uint STEP = D > 128 ? 32 : 64;
const uint DV = D > 128 ? D / 2 : D;
const uint K4 = D / 8, V4 = DV / 8; /* 16-byte words of a row */
const uint K_PITCH = K4 + 1, V_PITCH = V4 + 1, P_PITCH = STEP / 8 + 1;
const uint V_AT = STEP * K_PITCH, P_AT = V_AT + STEP * V_PITCH;
const uint POOL = P_AT + QUERIES * P_PITCH;
shared uvec4 pool[POOL > QUERIES * K_PITCH ? POOL : QUERIES * K_PITCH]; /* K, V, weights; before: Q over all of them */
const uint K_LOADS = STEP * K4 / THREADS, V_LOADS = STEP * V4 / THREADS;
const uint FRAGMENTS = STEP / 16;
const uint ELEMENTS = 16 * 16 / 32; /* of a matrix that a thread holds */
const uint SIDE_PITCH = 5;          /* words of a row of 16 f32, where a subgroup looks at them in its part of the weights */
const float SLACK = 8.0, LOG2E = 1.44269504, NONE = -1.0e30, LEAST = -1.0e20;
#define MatrixH fcoopmatNV<16, gl_ScopeSubgroup, SIDE_M, SIDE_N>

MatrixC sum[DV / 16], denominator, maxima; /* the last two: one value a row, in all columns */
MatrixC s[FRAGMENTS];
float most = LEAST; /* of this thread's query, as in maxima */
uint kv_head, query, part, aside;
uint table, last_block; /* place of the block table, its last block in use */

void subgroup_wait()
{
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

bool anyone(bool v)
{
    return subgroupBallot(v).x != 0;
}

/* Words of STEP rows from block `first` on: word `from` and `n4` - 1 more of each row. */
#define LOAD_ROWS(v, LOADS, is_v, first, n4, from)                                                              \
    {                                                                                                           \
        uint one = uint(p.tables.at[table + min(first, last_block)]);                                           \
        uint two = STEP > TOKENS ? uint(p.tables.at[table + min(first + 1, last_block)]) : 0;                   \
        [[unroll]] for (uint k = 0; k < LOADS; k++) {                                                           \
            uint i = gl_LocalInvocationIndex + k * THREADS, token = i / n4, word = i % n4 + from;               \
            uint block = token < TOKENS ? one : two;                                                            \
            if (KV_PACKED) {                                                                                    \
                v[k] = packed_load(U32(uint64_t(p.kv)), packed_part(block, p.n_kv_head, kv_head), is_v,         \
                                   token % TOKENS, word * 8, true);                                             \
            } else {                                                                                            \
                uint row = ((block * 2 + is_v) * p.n_kv_head + kv_head) * TOKENS + token % TOKENS;              \
                v[k] = p.kv.at[row * K4 + word];                                                                \
            }                                                                                                   \
        }                                                                                                       \
    }

#define STORE_ROWS(v, LOADS, is_v, at, n4, pitch)                                                               \
    [[unroll]] for (uint k = 0; k < LOADS; k++) {                                                               \
        uint i = gl_LocalInvocationIndex + k * THREADS;                                                         \
        pool[at + i / n4 * pitch + i % n4] = KV_PACKED ? packed_halves(v[k], is_v) : v[k];                      \
    }

/* A matrix with this thread's query's value in its whole row. */
void rows_of(float v, out MatrixC m)
{
    subgroup_wait();
    [[unroll]] for (uint i = 0; i < 2; i++) {
        pool[aside + query % 16 * SIDE_PITCH + part * 2 + i] = floatBitsToUint(vec4(v));
    }
    subgroup_wait();
    coopMatLoadNV(m, pool, aside, SIDE_PITCH, false);
}

/* Scores query by query, of tokens from `first` on: hides those after `position` and those `window` or more before it, and brings
 * maxima and sums up to date. */
void look(uint first, int position, bool hides)
{
    float now = most;
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
        subgroup_wait();
        coopMatStoreNV(s[f], pool, aside, SIDE_PITCH, false);
        subgroup_wait();
        [[unroll]] for (uint i = 0; i < 2; i++) {
            uint at = aside + query % 16 * SIDE_PITCH + part * 2 + i;
            vec4 v = uintBitsToFloat(pool[at]);
            if (hides) {
                [[unroll]] for (uint k = 0; k < 4; k++) {
                    int j = int(first + f * 16 + part * 8 + i * 4 + k);
                    v[k] = j <= position && (p.window == 0 || j > position - int(p.window)) ? v[k] : NONE;
                }
                pool[at] = floatBitsToUint(v);
            }
            now = max(now, max(max(v.x, v.y), max(v.z, v.w)));
        }
        if (hides) {
            subgroup_wait();
            coopMatLoadNV(s[f], pool, aside, SIDE_PITCH, false);
        }
    }
    now = max(now, subgroupShuffleXor(now, 1));
    if (anyone(now > most)) {
        MatrixC shrink;
        rows_of(exp2(min(now - most, 120.0)), shrink);
        [[unroll]] for (uint k = 0; k < DV / 16; k++) {
            sum[k] = sum[k] / shrink;
        }
        denominator = denominator / shrink;
        most = now;
        rows_of(most, maxima);
    }
    subgroup_wait();
}

void main()
{
    uint tid = gl_LocalInvocationIndex, lane = gl_SubgroupInvocationID;
    kv_head = gl_WorkGroupID.x;
    /* The last tiles see most: they begin first. */
    ivec4 tile = p.tiles.at[gl_NumWorkGroups.y - 1 - gl_WorkGroupID.y];
    uint first_row = uint(tile.x), n_queries = uint(tile.y) * G, v_from = gl_WorkGroupID.z * V4;
    if (tile.y == 0) {
        return;
    }
    /* Q: query i is row i / G, head i % G */
    for (uint i = tid; i < QUERIES * K4; i += THREADS) {
        uint one = i / K4, row = first_row + min(one, n_queries - 1) / G, head = kv_head * G + one % G;
        F32x4 q = F32x4(uint64_t(p.qkv) + 4ul * (row * p.stride + head * p.q_step));
        vec4 a = q.at[i % K4 * 2] * (p.scale * LOG2E), b = q.at[i % K4 * 2 + 1] * (p.scale * LOG2E);
        pool[one * K_PITCH + i % K4] = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
    }
    barrier();
    MatrixA q[D / 16];
    [[unroll]] for (uint k = 0; k < D / 16; k++) {
        coopMatLoadNV(q[k], pool, gl_SubgroupID * 16 * K_PITCH + k * 2, K_PITCH, false);
    }
    [[unroll]] for (uint k = 0; k < DV / 16; k++) {
        sum[k] = MatrixC(0.0);
    }
    denominator = MatrixC(0.0);
    maxima = MatrixC(LEAST);
    /* Two threads of the query's own subgroup share a query. */
    query = gl_SubgroupID * 16 + lane / 2;
    part = lane % 2;
    aside = P_AT + gl_SubgroupID * 16 * P_PITCH;
    ivec4 mine = p.rows.at[first_row + min(query, n_queries - 1) / G];
    int oldest = p.rows.at[first_row].y, newest = p.rows.at[first_row + uint(tile.y) - 1].y;
    table = uint(mine.z);
    last_block = uint(newest) / TOKENS;
    uint begin = p.window == 0 ? 0 : uint(max(oldest - int(p.window) + 1, 0)) / STEP, end = uint(newest) / STEP + 1;
    MatrixB ones = MatrixB(1.0);
    uvec4 k4[K_LOADS], v4[V_LOADS];
    LOAD_ROWS(k4, K_LOADS, 0, begin * (STEP / TOKENS), K4, 0)
    barrier(); /* Q has been read */
    [[dont_unroll]] for (uint b = begin; b < end; b++) {
        STORE_ROWS(k4, K_LOADS, 0, 0, K4, K_PITCH)
        LOAD_ROWS(v4, V_LOADS, 1, b * (STEP / TOKENS), V4, v_from)
        barrier();
        [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
            s[f] = MatrixC(0.0);
        }
        [[unroll]] for (uint k = 0; k < D / 16; k++) {
            [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
                MatrixB m;
                coopMatLoadNV(m, pool, f * 16 * K_PITCH + k * 2, K_PITCH, true);
                s[f] = coopMatMulAddNV(q[k], m, s[f]);
            }
        }
        STORE_ROWS(v4, V_LOADS, 1, V_AT, V4, V_PITCH)
        bool hides = int((b + 1) * STEP) > oldest + 1 || (p.window != 0 && int(b * STEP) <= newest - int(p.window));
        float above = NONE;
        if (!hides) {
            [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
                MatrixC e = s[f] - maxima;
                [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
                    above = max(above, e[i]);
                }
            }
        }
        if (hides || anyone(above > SLACK)) {
            look(b * STEP, mine.y, hides);
        }
        [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
            MatrixC e = s[f] - maxima;
            [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
                e[i] = exp2(e[i]);
            }
            MatrixH w = MatrixH(e);
            coopMatStoreNV(w, pool, aside + f * 2, P_PITCH, false);
        }
        if (b + 1 < end) {
            LOAD_ROWS(k4, K_LOADS, 0, (b + 1) * (STEP / TOKENS), K4, 0)
        }
        barrier();
        [[unroll]] for (uint t = 0; t < FRAGMENTS; t++) {
            MatrixA w;
            coopMatLoadNV(w, pool, aside + t * 2, P_PITCH, false);
            denominator = coopMatMulAddNV(w, ones, denominator);
            [[unroll]] for (uint k = 0; k < DV / 16; k++) {
                MatrixB m;
                coopMatLoadNV(m, pool, V_AT + t * 16 * V_PITCH + k * 2, V_PITCH, false);
                sum[k] = coopMatMulAddNV(w, m, sum[k]);
            }
        }
    }
    uint head = kv_head * G + query % G, row = first_row + query / G;
    if (SINKS) {
        MatrixC sink;
        rows_of(exp2(min(p.sinks.at[head] * LOG2E - most, 120.0)), sink);
        denominator = denominator + sink;
    }
    [[unroll]] for (uint k = 0; k < DV / 16; k++) {
        sum[k] = sum[k] / denominator;
        subgroup_wait();
        coopMatStoreNV(sum[k], pool, aside, SIDE_PITCH, false);
        subgroup_wait();
        [[unroll]] for (uint i = 0; i < 2; i++) {
            uint d = v_from * 8 + k * 16 + part * 8 + i * 4;
            vec4 v = uintBitsToFloat(pool[aside + query % 16 * SIDE_PITCH + part * 2 + i]);
            if (query < n_queries) {
                [[unroll]] for (uint z = 0; z < 4; z++) {
                    float gate = GATE ? sigmoid(p.qkv.at[row * p.stride + head * p.q_step + D + d + z]) : 1.0;
                    p.outs.at[(row * p.n_head + head) * D + d + z] = v[z] * gate;
                }
            }
        }
    }
}
