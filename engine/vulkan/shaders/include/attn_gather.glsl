/* The last workgroup of a row's splits makes one result of what all left, in the same dispatch. None waits for another, so it is right on any
 * device, whatever runs beside it. Uses what attn_units.comp declares. */
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Left4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer Left2 { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counter { uint at[]; };

shared bool is_last;

const uint OWN_SPLITS = (MAX_SPLITS + WARPS - 1) / WARPS; /* of a warp */

/* A head of all splits, as join() leaves one of all warps. */
void gather_head(uint h, uint parts, uint n)
{
    uint own = gl_LocalInvocationIndex % 32;
    vec2 left[OWN_SPLITS]; /* maximum and denominator */
    vec4 part[OWN_SPLITS];
    [[unroll]] for (uint i = 0; i < OWN_SPLITS; i++) {
        uint s = min(warp() + i * WARPS, n - 1);
        left[i] = Left2(uint64_t(p.parts)).at[parts_tops(parts, s, h)];
        part[i] = Left4(uint64_t(p.parts)).at[parts + (s * HEADS + h) * (D / 4) + own];
    }
    float most = NEVER, total = 0.0;
    [[unroll]] for (uint i = 0; i < OWN_SPLITS; i++) {
        most = max(most, left[i].x);
    }
    tops[warp()] = most;
    barrier();
    [[unroll]] for (uint w = 0; w < WARPS; w++) {
        most = max(most, tops[w]);
    }
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0; i < OWN_SPLITS; i++) {
        float factor = warp() + i * WARPS < n ? exp2(left[i].x - most) : 0.0;
        total += factor * left[i].y;
        sum += factor * part[i];
    }
    denominators[warp()] = total;
    sums4[warp() * 8 * (D / 4) + column_place(h, own)] = sum;
    barrier();
    total = 0.0;
    [[unroll]] for (uint w = 0; w < WARPS; w++) {
        total += denominators[w];
    }
    top[h] = most;
    denominator[h] = total;
}

/* Whether this workgroup is the last: then all heads are there. */
bool gather(uint pair, uint n)
{
    Counter counter = Counter(uint64_t(p.splits_left));
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        is_last = atomicAdd(counter.at[pair], 1u) == n - 1;
    }
    barrier();
    if (!is_last) {
        return false;
    }
    memoryBarrierBuffer();
    [[dont_unroll]] for (uint h = 0; h < G; h++) {
        gather_head(h, parts_at(pair), n);
    }
    if (gl_LocalInvocationIndex == 0) {
        counter.at[pair] = 0; /* for the next layer */
    }
    barrier();
    return true;
}
