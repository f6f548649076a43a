/* The choice of experts in resident_few.comp, and the list of them: an entry is an expert with one or two of its rows, of which the units take no
 * more at once; a few experts have several. */
const uint EXPERTS_EACH = (N_EXPERT + LANES - 1) / LANES;        /* of a thread, of a row that a subgroup has */
const uint ROWS_EACH = (MATRIX_FEW + SUBGROUPS - 1) / SUBGROUPS; /* of a subgroup */
const uint ENTRY_ROWS = 2;
const uint NO_PAIR = 0xffffffffu;
float logit[ROWS_EACH * EXPERTS_EACH];
shared int chosen_id[PAIRS];
shared float chosen_logit[PAIRS];
shared float chosen_weight[PAIRS];
shared uint rows_of[N_EXPERT];     /* a bit for each row that chose it */
shared uint first_entry[N_EXPERT];
shared uint entries[PAIRS];        /* experts, in order */
shared uint pair_of[PAIRS * ENTRY_ROWS];
shared uint n_entries;

/* Bits that are ordered as the numbers are, none of which is 0 but for some that are no numbers. Equal numbers have equal bits: sums that begin
 * with zero are never its negative. */
uint order_of(float v)
{
    uint b = floatBitsToUint(v);
    return b ^ ((b >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}
float of_order(uint k)
{
    return uintBitsToFloat(k ^ ((k >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}

uint experts_used(uint r)
{
    ivec4 row = p.token_rows.at[r];
    return row.y < 0 ? 0 : row_experts(row, N_USED);
}

/* The experts of row r, whose logits are from number `from` on, by one subgroup: the greatest, of equal ones the first. */
void choose_row(uint r, uint from)
{
    uint l = gl_SubgroupInvocationID, key[EXPERTS_EACH], n_used = experts_used(r), mine = 0;
    int id = -1;
    [[unroll]] for (uint j = 0; j < EXPERTS_EACH; j++) {
        key[j] = l + j * LANES < N_EXPERT ? order_of(logit[from + j]) : 0;
    }
    [[dont_unroll]] for (uint k = 0; k < N_USED; k++) {
        uint best = 0, e = 0;
        [[unroll]] for (uint j = 0; j < EXPERTS_EACH; j++) {
            e = key[j] > best ? l + j * LANES : e;
            best = max(best, key[j]);
        }
        uint top = subgroupMax(best), who = min(subgroupMin(best == top ? e : N_EXPERT), N_EXPERT - 1);
        [[unroll]] for (uint j = 0; j < EXPERTS_EACH; j++) {
            key[j] = l + j * LANES == who ? 0 : key[j];
        }
        mine = k == l ? top : mine;
        id = k == l && k < n_used ? int(who) : id;
    }
    if (l < N_USED) {
        chosen_id[r * N_USED + l] = id;
        chosen_logit[r * N_USED + l] = of_order(mine);
        if (id >= 0) {
            atomicOr(rows_of[id], 1u << r);
        }
    }
}

/* Their weights, when the norm's factor is known. */
void weigh_row(uint r, uint from)
{
    uint l = gl_SubgroupInvocationID, i = r * N_USED + min(l, N_USED - 1);
    float factor = factor_of[r], most = chosen_logit[r * N_USED], sum = 0.0;
    float e = l < N_USED && chosen_id[i] >= 0 ? exp((chosen_logit[i] - most) * factor) : 0.0;
    if (SCORE == 0 && !NORMALIZE) { /* the plain softmax */
        [[unroll]] for (uint j = 0; j < EXPERTS_EACH; j++) {
            sum += l + j * LANES < N_EXPERT ? exp((logit[from + j] - most) * factor) : 0.0;
        }
        sum = subgroupAdd(sum);
    } else {
        sum = subgroupAdd(e);
    }
    if (l < N_USED) {
        chosen_weight[i] = e / sum * p.scale;
    }
}

/* The list of experts that any row has, and their pairs of rows and places. */
void list_experts()
{
    uint l = gl_SubgroupInvocationID;
    barrier();
    if (gl_SubgroupID == 0) {
        uint n = 0;
        [[dont_unroll]] for (uint from = 0; from < N_EXPERT; from += LANES) {
            uint e = min(from + l, N_EXPERT - 1), count = from + l < N_EXPERT ? bitCount(rows_of[e]) : 0, mine = (count + 1) / ENTRY_ROWS;
            uint at = n + subgroupExclusiveAdd(mine);
            for (uint i = 0; i < mine; i++) {
                entries[at + i] = e;
            }
            if (count > 0) {
                first_entry[e] = at;
                if (gl_WorkGroupID.x == 0) {
                    atomicOr(U32(USED_AT).at[p.layer * RESIDENT_USED_WORDS + e / 32], 1u << (e % 32));
                }
            }
            n += subgroupAdd(mine);
        }
        if (l == 0) {
            n_entries = n;
        }
    }
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < p.n_rows * N_USED; i += T) {
        int e = chosen_id[i];
        if (e >= 0) {
            uint place = bitCount(rows_of[e] & ((1u << (i / N_USED)) - 1)), at = first_entry[e] * ENTRY_ROWS + place;
            pair_of[at] = i;
            if (place % ENTRY_ROWS == 0 && place + 1 == bitCount(rows_of[e])) {
                pair_of[at + 1] = NO_PAIR;
            }
        }
    }
    barrier();
}

void up_begin();

/* The rows' experts, and the rows normed in the pool. False: given up. */
bool choose()
{
    norm_ask(weight_at(p.ffn_norm), 0);
    [[dont_unroll]] for (uint e = gl_LocalInvocationIndex; e < N_EXPERT; e += T) {
        rows_of[e] = 0;
    }
    if (gl_LocalInvocationIndex == 0) {
        entries[0] = 0; /* what loads ask for where no row has any */
    }
    if (gl_LocalInvocationIndex < ZERO_VECTORS) {
        pool[ZEROS_AT + gl_LocalInvocationIndex] = uvec4(0);
    }
    if (!wait_for_all(0)) {
        return false;
    }
    [[unroll]] for (uint k = 0; k < ROWS_EACH; k++) {
        uint r = min(gl_SubgroupID + k * SUBGROUPS, p.n_rows - 1);
        [[unroll]] for (uint j = 0; j < EXPERTS_EACH; j++) {
            logit[k * EXPERTS_EACH + j] = LOGITS.at[r * LOGIT_STRIDE + min(gl_SubgroupInvocationID + j * LANES, N_EXPERT - 1)];
        }
    }
    [[unroll]] for (uint k = 0; k < ROWS_EACH; k++) {
        uint r = gl_SubgroupID + k * SUBGROUPS;
        if (r < p.n_rows) {
            choose_row(r, k * EXPERTS_EACH);
        }
    }
    list_experts();
    up_begin();
    norm_rows(true, false);
    [[unroll]] for (uint k = 0; k < ROWS_EACH; k++) {
        uint r = gl_SubgroupID + k * SUBGROUPS;
        if (r < p.n_rows) {
            weigh_row(r, k * EXPERTS_EACH);
        }
    }
    return true;
}

/* The pair of the thread's column. */
uint column_pair(uint entry)
{
    uint second = pair_of[entry * ENTRY_ROWS + 1];
    return lane() / 4 % 2 == 0 || second == NO_PAIR ? pair_of[entry * ENTRY_ROWS] : second;
}
