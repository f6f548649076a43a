/* What the DeltaNet shaders share: sizes, the convolution's ring, gates, and one step of the recurrence.
 *
 * A state in memory: the last CONV inputs of the convolution, [CONV, channels], position p in slot p % CONV, so that no
 * dispatch reads a slot that it writes; then the recurrence, [n_v_head, DV, DK] (a value's column lies in a row).
 * Four threads next to each other share a column: thread `lane` holds its 4-vectors lane, lane + 4, ... In that order
 * everything is summed, so a token gives the same bits in a prefill and alone. */
layout(constant_id = SPEC_DK) const uint DK = 128; /* a multiple of 32 */
layout(constant_id = SPEC_DV) const uint DV = 128; /* a multiple of 32 */
layout(constant_id = SPEC_CONV) const uint CONV = 4; /* width of the convolution */
layout(constant_id = SPEC_TILED) const bool TILED = false; /* value head j uses key head j % n_k_head, else j / (n_v / n_k) */
layout(constant_id = SPEC_N_K) const uint N_K = 16;
layout(constant_id = SPEC_N_V) const uint N_V = 32;

const uint K4 = DK / 16; /* 4-vectors of a column that one thread holds */
const uint CHANNELS = 2 * N_K * DK + N_V * DV;

/* Rows of the step: the state's index, rows before it of the same sequence in this step. */
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Runs { ivec2 at[]; };

/* Four consecutive indices are four neighbours of a subgroup, so that quad_sum needs no shared memory. */
uint thread_index()
{
    return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
}

float quad_sum(float v)
{
    v += subgroupShuffleXor(v, 1);
    return v + subgroupShuffleXor(v, 2);
}

uint key_head_of(uint head)
{
    return TILED ? head % N_K : head / (N_V / N_K);
}

/* The convolution of a row's channel, and silu. x: the channel in this row; rows of the same sequence lie `stride` floats
 * apart before it, `before` of them in this step; older inputs are in the ring. */
float convolve(F32 x, uint stride, F32 ring, F32 weight, uint channel, int position, uint before)
{
    float sum = weight.at[channel * CONV + CONV - 1] * x.at[channel];
    [[unroll]] for (uint i = 1; i < CONV; i++) {
        float past = 0.0;
        if (i <= before) {
            past = F32(uint64_t(x) - 4ul * i * stride).at[channel];
        } else if (position >= int(i)) {
            past = ring.at[(uint(position) - i) % CONV * CHANNELS + channel];
        }
        sum = fma(weight.at[channel * CONV + CONV - 1 - i], past, sum);
    }
    return sum * sigmoid(sum);
}

/* Factor on the state, and how far it moves towards the value. */
vec2 gates(float a, float b, float a_log, float dt_bias)
{
    float v = a + dt_bias;
    return vec2(exp(a_log * (v > 20.0 ? v : log(1.0 + exp(v)))), sigmoid(b));
}

struct Column {
    vec4 s[K4];
};

/* k and q of this thread's slices come by `keys` and `queries`; returns the column's value of the output. */
float recur(inout Column c, vec4 keys[K4], vec4 queries[K4], float value, vec2 gate)
{
    float held = 0.0, read = 0.0;
    [[unroll]] for (uint m = 0; m < K4; m++) {
        c.s[m] *= gate.x;
        held += dot(c.s[m], keys[m]);
    }
    float correction = (value - quad_sum(held)) * gate.y;
    [[unroll]] for (uint m = 0; m < K4; m++) {
        c.s[m] = fma(keys[m], vec4(correction), c.s[m]);
        read += dot(c.s[m], queries[m]);
    }
    return quad_sum(read);
}

void column_load(out Column c, F32x4 state, uint column, uint lane, bool fresh)
{
    [[unroll]] for (uint m = 0; m < K4; m++) {
        c.s[m] = fresh ? vec4(0.0) : state.at[column * (DK / 4) + lane + 4 * m];
    }
}

void column_store(Column c, F32x4 state, uint column, uint lane)
{
    [[unroll]] for (uint m = 0; m < K4; m++) {
        state.at[column * (DK / 4) + lane + 4 * m] = c.s[m];
    }
}
