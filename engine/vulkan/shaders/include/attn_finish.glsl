/* Results of attn.comp: written at once by an only split, else merged by the last of several to arrive. Uses the push
 * constants and shared variables declared there. */
void finish(uint t, uint kv_head, uint item, vec4 low, vec4 high)
{
    uint h = item / ROW4, head = kv_head * G + h;
    float l = denominator[h];
    if (SINKS) {
        l += exp(p.sinks.at[head] - top[h]);
    }
    float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    [[unroll]] for (uint i = 0; i < WIDTH; i++) {
        uint d = (item % ROW4) * WIDTH + i;
        float v = values[i] / l;
        if (KV_PACKED) {
            heads_at(h * D + d) = v;
            continue;
        }
        if (GATE) {
            v *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + d]);
        }
        p.outs.at[(t * p.n_head + head) * D + d] = v;
    }
}

/* Packed: the heads that finish() left in shared memory, rotated back. */
void finish_rotated(uint t, uint kv_head)
{
    rotate_heads(0, G * D);
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < G * D; i += THREADS) {
        uint head = kv_head * G + i / D, d = i % D;
        float v = heads_at(i);
        if (GATE) {
            v *= sigmoid(p.qkv.at[t * p.stride + head * p.q_step + D + d]);
        }
        p.outs.at[(t * p.n_head + head) * D + d] = v;
    }
}

void merge(uint t, uint kv_head, uint n_splits)
{
    uint base = ((t * p.n_kv_head + kv_head) * MAX_SPLITS) * G * (D + 2);
    barrier();
    if (gl_LocalInvocationIndex < G) {
        uint h = gl_LocalInvocationIndex;
        float most = -1.0e30, sum = 0.0;
        [[dont_unroll]] for (uint s = 0; s < n_splits; s++) {
            most = max(most, p.parts.at[base + (s * G + h) * (D + 2) + D]);
        }
        [[dont_unroll]] for (uint s = 0; s < n_splits; s++) {
            uint at = base + (s * G + h) * (D + 2) + D;
            sum += p.parts.at[at + 1] * exp(p.parts.at[at] - most);
        }
        top[h] = most;
        denominator[h] = sum;
    }
    barrier();
    [[dont_unroll]] for (uint item = gl_LocalInvocationIndex; item < ITEMS; item += THREADS) {
        uint h = item / ROW4, d = (item % ROW4) * WIDTH;
        vec4 low = vec4(0.0), high = vec4(0.0);
        [[dont_unroll]] for (uint s = 0; s < n_splits; s++) {
            uint at = base + (s * G + h) * (D + 2);
            float f = exp(p.parts.at[at + D] - top[h]);
            low += f * vec4(p.parts.at[at + d], p.parts.at[at + d + 1], p.parts.at[at + d + 2], p.parts.at[at + d + 3]);
            if (!KV_F32) {
                high += f * vec4(p.parts.at[at + d + 4], p.parts.at[at + d + 5], p.parts.at[at + d + 6], p.parts.at[at + d + 7]);
            }
        }
        finish(t, kv_head, item, low, high);
    }
    if (KV_PACKED) {
        finish_rotated(t, kv_head);
    }
}

/* This split's sums to memory. */
void hand_over(uint t, uint kv_head, uint split, uint item, vec4 low, vec4 high)
{
    uint base = ((t * p.n_kv_head + kv_head) * MAX_SPLITS + split) * G * (D + 2);
    uint at = base + (item / ROW4) * (D + 2) + (item % ROW4) * WIDTH;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        p.parts.at[at + i] = low[i];
        if (!KV_F32) {
            p.parts.at[at + 4 + i] = high[i];
        }
    }
}

/* The split's maxima and denominators; the last workgroup to arrive merges, and leaves the counter at zero. */
void hand_in(uint t, uint kv_head, uint split, uint n_splits)
{
    if (gl_LocalInvocationIndex < G) {
        uint at = (((t * p.n_kv_head + kv_head) * MAX_SPLITS + split) * G + gl_LocalInvocationIndex) * (D + 2) + D;
        p.parts.at[at] = top[gl_LocalInvocationIndex];
        p.parts.at[at + 1] = denominator[gl_LocalInvocationIndex];
    }
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        uint n = atomicAdd(p.split_done.at[t * p.n_kv_head + kv_head], 1);
        is_last = n == n_splits - 1 ? 1 : 0;
    }
    barrier();
    if (is_last == 1) {
        memoryBarrierBuffer();
        merge(t, kv_head, n_splits);
        if (gl_LocalInvocationIndex == 0) {
            p.split_done.at[t * p.n_kv_head + kv_head] = 0;
        }
    }
}
