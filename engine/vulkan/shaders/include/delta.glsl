/* What the DeltaNet shaders share: sizes, the convolution's ring, gates, and one step of the recurrence.
 *
 * A state in memory: the last CONV inputs of the convolution, [CONV, channels], position p in slot p % CONV, so that no
 * dispatch reads a slot that it writes; then the recurrence, [n_v_head, DV, DK] (a value's column lies in a row).
 * SHARE threads next to each other share a column: thread `lane` holds its 4-vectors lane, lane + SHARE, ... In that order
 * everything is summed, so a token gives the same bits in a prefill and alone. */
layout(constant_id = SPEC_DK) const uint DK = 128; /* a multiple of 32 */
layout(constant_id = SPEC_DV) const uint DV = 128; /* a multiple of 32 */
layout(constant_id = SPEC_CONV) const uint CONV = 4; /* width of the convolution */
layout(constant_id = SPEC_TILED) const bool TILED = false; /* value head j uses key head j % n_k_head, else j / (n_v / n_k) */
layout(constant_id = SPEC_N_K) const uint N_K = 16;
layout(constant_id = SPEC_N_V) const uint N_V = 32;
layout(constant_id = SPEC_DELTA_HALVES) const bool HALVES = false; /* what leaves the norm */

layout(constant_id = SPEC_DELTA_SHARE) const uint SHARE = 8; /* or 4, of a subgroup that has no more */
const uint K4 = DK / (4 * SHARE); /* 4-vectors of a column that one thread holds */
const uint CHANNELS = 2 * N_K * DK + N_V * DV;
const uint PIECE = 4 * SHARE, PIECES = DV / PIECE; /* columns of a head's piece in resident.comp, pieces of a head */

/* Rows of the step: the state's index, rows before it of the same sequence in this step. */
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Runs { ivec2 at[]; };

/* SHARE consecutive indices are neighbours of a subgroup, so that column_sum needs no shared memory. */
uint thread_index()
{
    return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
}

/* Over the threads that share a column. */
float column_sum(float v)
{
    v += subgroupShuffleXor(v, 1);
    v += subgroupShuffleXor(v, 2);
    return SHARE == 8 ? v + subgroupShuffleXor(v, 4) : v;
}

uint key_head_of(uint head)
{
    return TILED ? head % N_K : head / (N_V / N_K);
}

/* What the convolution multiplies four neighbouring channels by, the newest input's last. */
void taps_load(F32 weight, uint channel, out vec4 tap[CONV])
{
    [[unroll]] for (uint j = 0; j < 4; j++) {
        vec4 w = CONV == 4 ? F32x4(weight).at[channel + j] : vec4(0.0);
        [[unroll]] for (uint i = 0; i < CONV; i++) {
            tap[i][j] = CONV == 4 ? w[i % 4] : weight.at[(channel + j) * CONV + i];
        }
    }
}

/* An input from the ring, `back` positions before this one; 0 before the first. */
vec4 ring_load(F32 ring, uint channel, int position, uint back)
{
    return position >= int(back) ? F32x4(ring).at[((uint(position) - back) % CONV * CHANNELS + channel) / 4] : vec4(0.0);
}

/* The convolution of four neighbouring channels, and silu; past: inputs, the newest first. */
vec4 convolved(vec4 past[CONV], vec4 tap[CONV])
{
    vec4 sum = tap[CONV - 1] * past[0];
    [[unroll]] for (uint i = 1; i < CONV; i++) {
        sum = fma(tap[CONV - 1 - i], past[i], sum);
    }
    return sum * vec4(sigmoid(sum.x), sigmoid(sum.y), sigmoid(sum.z), sigmoid(sum.w));
}

/* The same of a row x; rows of the same sequence lie `stride` floats apart before it, `before` of them in this step; older inputs are in
 * the ring. */
vec4 convolve(F32 x, uint stride, F32 ring, F32 weight, uint channel, int position, uint before)
{
    vec4 past[CONV], tap[CONV]; /* all on their way together */
    [[unroll]] for (uint i = 0; i < CONV; i++) {
        if (i <= before) {
            past[i] = F32x4(uint64_t(x) - 4ul * i * stride).at[channel / 4];
        } else {
            past[i] = ring_load(ring, channel, position, i);
        }
    }
    taps_load(weight, channel, tap);
    return convolved(past, tap);
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

float sum_of(vec4 v)
{
    return (v.x + v.y) + (v.z + v.w);
}

/* k and q of this thread's slices come by `keys` and `queries`; returns the column's value of the output. Four sums at a time: one row
 * waits for the one before it, so what counts is how long a chain of additions is. */
float recur(inout Column c, vec4 keys[K4], vec4 queries[K4], float value, vec2 gate)
{
    vec4 held = vec4(0.0), read = vec4(0.0);
    [[unroll]] for (uint m = 0; m < K4; m++) {
        c.s[m] *= gate.x;
        held = fma(c.s[m], keys[m], held);
    }
    float correction = (value - column_sum(sum_of(held))) * gate.y;
    [[unroll]] for (uint m = 0; m < K4; m++) {
        c.s[m] = fma(keys[m], vec4(correction), c.s[m]);
        read = fma(c.s[m], queries[m], read);
    }
    return column_sum(sum_of(read));
}

void column_load(out Column c, F32x4 state, uint column, uint lane, bool fresh)
{
    [[unroll]] for (uint m = 0; m < K4; m++) {
        c.s[m] = fresh ? vec4(0.0) : state.at[column * (DK / 4) + lane + SHARE * m];
    }
}

void column_store(Column c, F32x4 state, uint column, uint lane)
{
    [[unroll]] for (uint m = 0; m < K4; m++) {
        state.at[column * (DK / 4) + lane + SHARE * m] = c.s[m];
    }
}
