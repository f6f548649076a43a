/* Half of a folded router's logits (ops/router_fold.h) for few rows of X, beside the product that reads or makes what the router is multiplied by: a
 * workgroup has a row of W, and eight rows of X at a time. BESIDE 1: logits[t, e] = W[e, :] . x[t, :]; 2: they are added, and x comes in halves. A row's
 * sums do not depend on how many there are, but on the workgroup's size, as the product's. Uses the push constants and variables of matmul_few.comp. */
layout(constant_id = SPEC_EXTRA) const uint BESIDE = 0;

const uint BESIDE_ROWS = 8;

/* Four columns of row t of what W is multiplied by. */
vec4 beside_x(uint t, uint quad)
{
    uint at = t * p.beside_quads + quad;
    if (BESIDE == 1) {
        return F32x4(p.beside_x).at[at];
    }
    uvec2 h = U32x2(p.beside_x).at[at];
    return vec4(unpackHalf2x16(h.x), unpackHalf2x16(h.y));
}

/* Row e of W times the n rows of X from `from` on, BESIDE_ROWS at most, whose sums meet in `sums`. */
void beside_some(uint e, uint from, uint n)
{
    float sum[BESIDE_ROWS];
    [[unroll]] for (uint r = 0; r < BESIDE_ROWS; r++) {
        sum[r] = 0.0;
    }
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < p.beside_quads; i += gl_WorkGroupSize.x) {
        vec4 w = p.beside.at[e * p.beside_quads + i], x[BESIDE_ROWS];
        [[unroll]] for (uint r = 0; r < BESIDE_ROWS; r++) {
            x[r] = beside_x(from + min(r, n - 1), i);
        }
        [[unroll]] for (uint r = 0; r < BESIDE_ROWS; r++) {
            sum[r] += dot(w, x[r]);
        }
    }
    [[unroll]] for (uint r = 0; r < BESIDE_ROWS; r++) {
        sum[r] = subgroupAdd(sum[r]);
    }
    if (gl_SubgroupInvocationID == 0) {
        sums[gl_SubgroupID * 2] = vec4(sum[0], sum[1], sum[2], sum[3]);
        sums[gl_SubgroupID * 2 + 1] = vec4(sum[4], sum[5], sum[6], sum[7]);
    }
    barrier();
    uint r = gl_LocalInvocationIndex;
    if (r < n) {
        float all = 0.0;
        [[dont_unroll]] for (uint s = 0; s < gl_NumSubgroups; s++) {
            all += sums[s * 2 + r / 4][r % 4];
        }
        uint at = (from + r) * p.beside_stride + e;
        p.beside_y.at[at] = BESIDE == 2 ? p.beside_y.at[at] + all : all;
    }
    barrier();
}

void beside_rows(uint e, uint from, uint n)
{
    [[dont_unroll]] for (uint some = 0; some < n; some += BESIDE_ROWS) {
        beside_some(e, from + some, min(BESIDE_ROWS, n - some));
    }
}
