/* The gated norm of one head: out4 [DV / 4] in shared memory, all threads of the workgroup; a barrier comes before.
 * outs, z: the head's first value. */
void norm_gate(F32 outs, F32 z, F32 weight, float eps)
{
    float squares = 0.0;
    [[unroll]] for (uint m = 0; m < DV / 16; m++) {
        vec4 v = out4[thread_index() % 4 + 4 * m];
        squares += dot(v, v);
    }
    float factor = inversesqrt(quad_sum(squares) / float(DV) + eps);
    for (uint i = thread_index(); i < DV; i += gl_WorkGroupSize.x) {
        float gate = z.at[i];
        outs.at[i] = out4[i / 4][i % 4] * factor * weight.at[i] * gate * sigmoid(gate);
    }
}
