#version 460
/* S <- decay S; S += k (x) strength (v - S^T k); o = S^T q, row after row of each sequence
 * S [DK, DV] per value head; x [T, CHANNELS] of delta_conv; outs [T, N_V, DV]
 * Gated DeltaNet, prefill. The state stays in registers; k and q of STEPS rows at a time lie in shared memory.
 * Grid (N_V * DV / 32, sequences); a workgroup owns 32 columns of one head, a thread its part of
 * two, for which it loads keys and queries once. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "delta.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Sequences { ivec4 at[]; };

#define PUSH_DELTA_SCAN
#include "push.h"

const uint COLUMNS = 32, HALF = COLUMNS / 2, THREADS = SHARE * HALF;
const uint STEPS = 2048 / DK < 16 ? 2048 / DK : 16;
shared vec4 keys4[STEPS * DK / 4], queries4[STEPS * DK / 4];
shared float values[STEPS * COLUMNS];
shared vec2 gate_of[STEPS];

/* Keeps what the next step's convolution needs of this one's inputs; all workgroups of a sequence share the channels. */
void keep_inputs(ivec4 q, F32 ring)
{
    uint groups = gl_NumWorkGroups.x, from = gl_WorkGroupID.x * CHANNELS / groups, to = (gl_WorkGroupID.x + 1) * CHANNELS / groups;
    for (int i = max(q.y - int(CONV), 0); i < q.y; i++) {
        for (uint c = from + thread_index(); c < to; c += THREADS) {
            ring.at[uint(q.w + i) % CONV * CHANNELS + c] = p.raw.at[uint(q.x + i) * p.raw_stride + c];
        }
    }
}

/* Rows that follow, on their way while others are computed. */
const uint EACH4 = (STEPS * DK / 4 + THREADS - 1) / THREADS, EACH = (STEPS * COLUMNS + THREADS - 1) / THREADS;
vec4 next_keys[EACH4], next_queries[EACH4];
float next_values[EACH];
vec2 next_gate;

void ask(uint first, uint n, uint head, uint column0)
{
    uint key = key_head_of(head) * DK, tid = thread_index();
    [[unroll]] for (uint i = 0; i < EACH4; i++) {
        uint j = tid + i * THREADS, at = (first + min(j / (DK / 4), n - 1)) * CHANNELS + key, d = j % (DK / 4);
        next_queries[i] = F32x4(uint64_t(p.x) + 4ul * at).at[d];
        next_keys[i] = F32x4(uint64_t(p.x) + 4ul * (at + N_K * DK)).at[d];
    }
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint j = tid + i * THREADS;
        next_values[i] = p.x.at[(first + min(j / COLUMNS, n - 1)) * CHANNELS + 2 * N_K * DK + head * DV + column0 + j % COLUMNS];
    }
    next_gate = p.gate.at[(first + min(tid, n - 1)) * N_V + head];
}

void stage()
{
    uint tid = thread_index();
    [[unroll]] for (uint i = 0; i < EACH4; i++) {
        uint j = tid + i * THREADS;
        if (j < STEPS * DK / 4) {
            queries4[j] = next_queries[i];
            keys4[j] = next_keys[i];
        }
    }
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint j = tid + i * THREADS;
        if (j < STEPS * COLUMNS) {
            values[j] = next_values[i];
        }
    }
    if (tid < STEPS) {
        gate_of[tid] = next_gate;
    }
}

struct Row { /* of this thread's slices and columns */
    vec4 keys[K4], queries[K4];
    vec2 value;
    vec2 gate;
};

void row_load(out Row r, uint t, uint lane, uint own)
{
    [[unroll]] for (uint m = 0; m < K4; m++) {
        r.keys[m] = keys4[t * (DK / 4) + lane + SHARE * m];
        r.queries[m] = queries4[t * (DK / 4) + lane + SHARE * m];
    }
    r.value = vec2(values[t * COLUMNS + own], values[t * COLUMNS + HALF + own]);
    r.gate = gate_of[t];
}

vec2 both(inout Column a, inout Column b, Row r)
{
    return vec2(recur(a, r.keys, r.queries, r.value.x, r.gate), recur(b, r.keys, r.queries, r.value.y, r.gate));
}

void put(F32 outs, uint t, uint lane, vec2 o)
{
    if (lane < 2) {
        outs.at[t * N_V * DV + lane * HALF] = lane == 0 ? o.x : o.y;
    }
}

void main()
{
    ivec4 q = p.sequences.at[gl_WorkGroupID.y];
    if (q.y == 0) {
        return;
    }
    uint tid = thread_index(), lane = tid % SHARE, own = tid / SHARE;
    uint head = gl_WorkGroupID.x / (DV / COLUMNS), column0 = gl_WorkGroupID.x % (DV / COLUMNS) * COLUMNS;
    uint64_t base = p.state + uint64_t(q.z) * p.state_bytes;
    F32x4 state = F32x4(base + 4ul * (CONV * CHANNELS + head * DV * DK));
    Column a, b;
    column_load(a, state, column0 + own, lane, q.w == 0);
    column_load(b, state, column0 + HALF + own, lane, q.w == 0);
    keep_inputs(q, F32(base));
    ask(uint(q.x), min(STEPS, uint(q.y)), head, column0);
    [[dont_unroll]] for (uint done = 0; done < uint(q.y); done += STEPS) {
        uint n = min(STEPS, uint(q.y) - done), first = uint(q.x) + done;
        barrier();
        stage();
        barrier();
        if (done + STEPS < uint(q.y)) {
            ask(first + STEPS, min(STEPS, uint(q.y) - done - STEPS), head, column0);
        }
        Row even, odd; /* one is on its way while the other is used */
        row_load(even, 0, lane, own);
        F32 outs = F32(uint64_t(p.outs) + 4ul * ((first * N_V + head) * DV + column0 + own));
        [[dont_unroll]] for (uint t = 0; t + 1 < n; t += 2) {
            row_load(odd, t + 1, lane, own);
            vec2 o = both(a, b, even);
            row_load(even, min(t + 2, n - 1), lane, own);
            put(outs, t + 1, lane, both(a, b, odd));
            put(outs, t, lane, o);
        }
        if (n % 2 == 1) {
            put(outs, n - 1, lane, both(a, b, even));
        }
    }
    column_store(a, state, column0 + own, lane);
    column_store(b, state, column0 + HALF + own, lane);
}
