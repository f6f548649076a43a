/* Gated DeltaNet of the layer that follows in resident.comp, as delta_step.comp's: a workgroup has some columns of a head, and each thread
 * has asked for its part of the state before it waits for the projections. The norm of a head is left to whoever reads it, by the
 * squares of its pieces. */
const uint IN4 = (2 * DK + PIECE) / 4; /* float4 of the convolution that a piece needs: its head's q and k, its own v */
shared vec4 query4[DK / 4], key4[DK / 4], value4[SHARE], out4[SHARE];
shared bool may_advance;

/* Of each layer, behind the words of advanced_of(). */
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Mixer {
    uint64_t state; /* of sequence 0 */
    Runs runs;
    F32 conv, a_log, dt_bias, norm;
};
Mixer mixer_of(uint layer)
{
    return Mixer(uint64_t(advanced_of(p.n_layer)) + 4ul * layer * RESIDENT_MIXER_WORDS);
}

#define PROJECTED Shared(work_at(AT_QKV))
#define PROJECTED4 Shared4(work_at(AT_QKV))

/* The first channel of the convolution's float4 number i for a piece of a head. */
uint channel_of(uint i, uint head, uint piece)
{
    uint key_head = key_head_of(head);
    return i < DK / 4   ? key_head * DK + 4 * i
           : i < DK / 2 ? (N_K + key_head) * DK + 4 * (i - DK / 4)
                        : 2 * N_K * DK + head * DV + piece * PIECE + 4 * (i - DK / 2);
}

void input_put(uint i, vec4 v)
{
    if (i < DK / 4) {
        query4[i] = v;
    } else if (i < DK / 2) {
        key4[i - DK / 4] = v;
    } else {
        value4[i - DK / 2] = v;
    }
}

/* The output of this thread's column. */
float column_step(inout Column c, uint own, uint lane, vec2 gate)
{
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
    return recur(c, keys, queries, value4[own / 4][own % 4], gate);
}

/* Piece number `piece` of a head. The state is advanced only if nobody has given up: what came here is right then, and
 * the piece is marked, so that the step done again leaves it as it is. */
void mixer_piece(uint head, uint piece, bool waits)
{
    uint tid = thread_index(), lane = tid % SHARE, own = tid / SHARE, i = min(tid, IN4 - 1);
    int position = p.token_rows.at[0].y;
    Mixer m = mixer_of(p.layer + 1);
    uint64_t base = m.state + uint64_t(m.runs.at[0].x) * (4ul * (CONV * CHANNELS + N_V * DV * DK));
    F32x4 state = F32x4(base + 4ul * (CONV * CHANNELS + head * DV * DK));
    uint channel = channel_of(i, head, piece), column = piece * PIECE + own;
    bool has_column = own < PIECE, keeps_key = piece == 0 && (TILED ? head < N_K : head % (N_V / N_K) == 0);
    Column c;
    if (has_column) {
        column_load(c, state, column, lane, position == 0);
    }
    vec4 past[CONV], tap[CONV];
    [[unroll]] for (uint back = 1; back < CONV; back++) {
        past[back] = ring_load(F32(base), channel, position, back);
    }
    taps_load(m.conv, channel, tap);
    float a_log = m.a_log.at[head], dt_bias = m.dt_bias.at[head];
    uint own4 = (piece * PIECE) / 4 + min(tid, SHARE - 1);
    vec4 weight = F32x4(m.norm).at[own4];
    if (waits) {
        wait_for_all(3);
    }
    past[0] = PROJECTED4.at[channel / 4];
    uint gates_at = CHANNELS + N_V * DV;
    float a = PROJECTED.at[gates_at + head], b = PROJECTED.at[gates_at + N_V + head];
    vec4 z = PROJECTED4.at[(CHANNELS + head * DV) / 4 + own4];
    if (tid == 0) {
        may_advance = !is_given_up();
    }
    if (tid < IN4) {
        input_put(tid, convolved(past, tap));
    }
    barrier();
    if (may_advance && tid < IN4 && (keeps_key || tid >= DK / 2)) {
        F32x4(base).at[(uint(position) % CONV * CHANNELS + channel) / 4] = past[0];
    }
    if (has_column) {
        float o = column_step(c, own, lane, gates(a, b, a_log, dt_bias));
        if (lane == 0) {
            out4[own / 4][own % 4] = o;
        }
        if (may_advance) {
            column_store(c, state, column, lane);
        }
    }
    barrier();
    if (tid < SHARE) {
        vec4 v = out4[tid];
        float squares = column_sum(dot(v, v));
        F32x4(work_at(AT_MIXED)).at[head * (DV / 4) + own4] = v * weight * z * vec4(sigmoid(z.x), sigmoid(z.y), sigmoid(z.z), sigmoid(z.w));
        if (tid == 0) {
            F32(work_at(AT_SQUARES)).at[head * PIECES + piece] = squares;
            if (may_advance) {
                advanced_of(p.layer + 1).at[head * PIECES + piece] = 1;
            }
        }
    }
}

void next_mixer()
{
    if ((p.token_rows.at[0].y | mixer_of(p.layer + 1).runs.at[0].x) < 0) { /* a row of a probe, without a state */
        return;
    }
    [[dont_unroll]] for (uint i = gl_WorkGroupID.x; i < N_V * PIECES; i += gl_NumWorkGroups.x) {
        if (i != gl_WorkGroupID.x) {
            barrier();
        }
        mixer_piece(i / PIECES, i % PIECES, i == gl_WorkGroupID.x);
    }
}

/* What number i of the mixer's float4 is to be multiplied by. */
float mixed_factor(uint i)
{
    float sum = 0.0;
    [[unroll]] for (uint k = 0; k < PIECES; k++) {
        sum += F32(work_at(AT_SQUARES)).at[i / (DV / 4) * PIECES + k];
    }
    return inversesqrt(sum / float(DV) + p.eps);
}
