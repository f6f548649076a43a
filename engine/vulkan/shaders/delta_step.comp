#version 460
/* delta_conv, delta_scan and delta_norm of one row per sequence at once, with the same order of additions
 * x [T, stride]: q [N_K, DK], k, v [N_V, DV], z, a [N_V], b [N_V]; outs [T, N_V, DV]
 * Gated DeltaNet, decode: every row is its sequence's only one in the step.
 * AGAIN: the step was begun by resident.comp, which has advanced some pieces of the state; of these only the output is made.
 * Grid (N_V, T); one workgroup of SHARE DV / COLUMNS threads per value head. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "delta.glsl"

layout(constant_id = SPEC_DELTA_AGAIN) const bool AGAIN = false;

#define PUSH_DELTA_STEP
#include "push.h"

const uint COLUMNS = DELTA_COLUMNS, THREADS = SHARE * DV / COLUMNS;
shared vec4 query4[DK / 4], key4[DK / 4], out4[DV / 4];
shared vec4 value4[DV / 4];
#include "delta_norm.glsl"

/* q, k and v of this head; the first value head of a key head keeps the inputs of q and k. */
void load_inputs(F32 x, F32 ring, uint head, int position)
{
    uint key_head = key_head_of(head), slot = uint(position) % CONV * CHANNELS;
    bool keeps_key = TILED ? head < N_K : head % (N_V / N_K) == 0;
    for (uint i = thread_index(); i < (2 * DK + DV) / 4; i += THREADS) {
        bool is_q = i < DK / 4, is_k = !is_q && i < DK / 2;
        uint d = is_q ? i : is_k ? i - DK / 4 : i - DK / 2;
        uint channel = 4 * d + (is_q ? key_head * DK : is_k ? (N_K + key_head) * DK : 2 * N_K * DK + head * DV);
        vec4 v = convolve(x, p.stride, ring, p.conv, channel, position, 0);
        if (is_q) {
            query4[d] = v;
        } else if (is_k) {
            key4[d] = v;
        } else {
            value4[d] = v;
        }
        if (keeps_key || !(is_q || is_k)) {
            F32x4(ring).at[(slot + channel) / 4] = F32x4(x).at[channel / 4];
        }
    }
}

void main()
{
    uint t = gl_WorkGroupID.y, head = gl_WorkGroupID.x, tid = thread_index(), lane = tid % SHARE, own = tid / SHARE;
    ivec4 row = p.rows.at[t];
    ivec2 run = p.runs.at[t];
    if ((row.y | run.x) < 0) { /* an index of a state never is: so both are asked for together */
        return;
    }
    uint64_t base = p.state + uint64_t(run.x) * p.state_bytes;
    F32x4 state = F32x4(base + 4ul * (CONV * CHANNELS + head * DV * DK));
    F32 x = F32(uint64_t(p.x) + 4ul * t * p.stride);
    Column c[COLUMNS];
    bool advanced[COLUMNS];
    [[unroll]] for (uint i = 0; i < COLUMNS; i++) {
        uint column = own + i * (DV / COLUMNS);
        advanced[i] = AGAIN && p.advanced.at[head * PIECES + column / PIECE] != 0;
        column_load(c[i], state, column, lane, row.y == 0 && !advanced[i]);
    }
    vec2 gate = gates(x.at[p.gates_at + head], x.at[p.gates_at + N_V + head], p.a_log.at[head], p.dt_bias.at[head]);
    uint own4 = min(tid, DV / 4 - 1); /* what the norm needs */
    vec4 z = F32x4(uint64_t(x) + 4ul * (p.z_at + head * DV)).at[own4], weight = F32x4(p.weight).at[own4];
    load_inputs(x, F32(base), head, row.y);
    barrier();
    vec4 keys[K4], queries[K4];
    vec2 squares = vec2(0.0);
    [[unroll]] for (uint m = 0; m < K4; m++) {
        queries[m] = query4[lane + SHARE * m];
        keys[m] = key4[lane + SHARE * m];
        squares += vec2(dot(queries[m], queries[m]), dot(keys[m], keys[m]));
    }
    vec2 factor = inversesqrt(vec2(column_sum(squares.x), column_sum(squares.y)) + 1.0e-6);
    factor.x *= inversesqrt(float(DK));
    [[unroll]] for (uint m = 0; m < K4; m++) {
        queries[m] *= factor.x;
        keys[m] *= factor.y;
    }
    [[unroll]] for (uint i = 0; i < COLUMNS; i++) {
        uint column = own + i * (DV / COLUMNS);
        float o = recur(c[i], keys, queries, value4[column / 4][column % 4], advanced[i] ? vec2(1.0, 0.0) : gate);
        if (lane == 0) {
            out4[column / 4][column % 4] = o;
        }
    }
    barrier();
    norm_gate(0, tid, p.outs, t * N_V + head, z, weight, p.eps);
    [[unroll]] for (uint i = 0; i < COLUMNS; i++) {
        column_store(c[i], state, own + i * (DV / COLUMNS), lane);
    }
}
