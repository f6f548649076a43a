/* The gated norm of one head: its values begin at out4[first] in shared memory; a barrier comes before. The thread writes 4-vector i of
 * them, if there is such; SHARE neighbours sum together.
 * outs [., DV] floats or halves: the head is number `at`; z, weight: the thread's. */
void norm_gate(uint first, uint i, F32 outs, uint at, vec4 z, vec4 weight, float eps)
{
    if (i >= DV / 4) {
        return;
    }
    float squares = 0.0;
    [[unroll]] for (uint m = 0; m < DV / (4 * SHARE); m++) {
        vec4 v = out4[first + i % SHARE + SHARE * m];
        squares += dot(v, v);
    }
    float factor = inversesqrt(column_sum(squares) / float(DV) + eps);
    vec4 v = out4[first + i] * factor * weight * z * vec4(sigmoid(z.x), sigmoid(z.y), sigmoid(z.z), sigmoid(z.w));
    if (HALVES) {
        U32x2(outs).at[at * (DV / 4) + i] = uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
    } else {
        F32x4(outs).at[at * (DV / 4) + i] = v;
    }
}
