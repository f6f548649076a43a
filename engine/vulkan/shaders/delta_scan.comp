#version 460
/* S <- decay S; S += k (x) strength (v - S^T k); o = S^T q, row after row of each sequence
 * S [DK, DV] per value head; x [T, CHANNELS] of delta_conv; outs [T, N_V, DV]
 * Gated DeltaNet, prefill. The state stays in registers; k and q of STEPS rows at a time lie in shared memory.
 * Grid (N_V * DV / 32, sequences); a workgroup of 128 threads owns 32 columns of one head. */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "delta.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Sequences { ivec4 at[]; };

#define PUSH_DELTA_SCAN
#include "push.h"

const uint COLUMNS = 32, THREADS = 4 * COLUMNS;
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

void stage(uint first, uint n, uint head, uint column0)
{
    uint key = key_head_of(head) * DK, tid = thread_index();
    for (uint i = tid; i < n * (DK / 4); i += THREADS) {
        uint at = (first + i / (DK / 4)) * CHANNELS + key, d = i % (DK / 4);
        queries4[i] = F32x4(uint64_t(p.x) + 4ul * at).at[d];
        keys4[i] = F32x4(uint64_t(p.x) + 4ul * (at + N_K * DK)).at[d];
    }
    for (uint i = tid; i < n * COLUMNS; i += THREADS) {
        values[i] = p.x.at[(first + i / COLUMNS) * CHANNELS + 2 * N_K * DK + head * DV + column0 + i % COLUMNS];
    }
    if (tid < n) {
        gate_of[tid] = p.gate.at[(first + tid) * N_V + head];
    }
}

void main()
{
    ivec4 q = p.sequences.at[gl_WorkGroupID.y];
    if (q.y == 0) {
        return;
    }
    uint tid = thread_index(), lane = tid % 4, own = tid / 4;
    uint head = gl_WorkGroupID.x / (DV / COLUMNS), column0 = gl_WorkGroupID.x % (DV / COLUMNS) * COLUMNS;
    uint64_t base = p.state + uint64_t(q.z) * p.state_bytes;
    F32x4 state = F32x4(base + 4ul * (CONV * CHANNELS + head * DV * DK));
    Column c;
    column_load(c, state, column0 + own, lane, q.w == 0);
    keep_inputs(q, F32(base));
    [[dont_unroll]] for (uint done = 0; done < uint(q.y); done += STEPS) {
        uint n = min(STEPS, uint(q.y) - done), first = uint(q.x) + done;
        barrier();
        stage(first, n, head, column0);
        barrier();
        [[dont_unroll]] for (uint t = 0; t < n; t++) {
            vec4 keys[K4], queries[K4];
            [[unroll]] for (uint m = 0; m < K4; m++) {
                keys[m] = keys4[t * (DK / 4) + lane + 4 * m];
                queries[m] = queries4[t * (DK / 4) + lane + 4 * m];
            }
            float o = recur(c, keys, queries, values[t * COLUMNS + own], gate_of[t]);
            if (lane == 0) {
                p.outs.at[((first + t) * N_V + head) * DV + column0 + own] = o;
            }
        }
    }
    column_store(c, state, column0 + own, lane);
}
