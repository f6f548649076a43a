/* How attn.comp divides a row's context into splits, and where these leave their sums for attn_merge.comp. Needs D, HEADS,
 * BLOCK_TOKENS and the push constants' window. */
layout(constant_id = SPEC_MIN_BLOCKS) const uint MIN_BLOCKS = 4; /* blocks of a split at least */
layout(constant_id = SPEC_MAX_SPLITS) const uint MAX_SPLITS = 32;

struct splits {
    uint first_block, last_block, per, n; /* per: blocks of a split, the last has the rest */
};

/* Of a row at this position, whatever the others' are. */
splits splits_of(int position)
{
    splits s;
    s.last_block = uint(position) / BLOCK_TOKENS;
    s.first_block = p.window == 0 ? 0 : uint(max(position - int(p.window) + 1, 0)) / BLOCK_TOKENS;
    uint n_blocks = s.last_block - s.first_block + 1;
    s.per = max(MIN_BLOCKS, (n_blocks + MAX_SPLITS - 1) / MAX_SPLITS);
    s.n = (n_blocks + s.per - 1) / s.per;
    return s;
}

/* A row's HEADS heads are a pair. Its sums in vec4, [MAX_SPLITS][HEADS][D / 4]; behind them [MAX_SPLITS][HEADS] maxima and
 * denominators, two floats each. */
uint parts_at(uint pair)
{
    return pair * (MAX_SPLITS * HEADS * (D + 2) / 4);
}

uint parts_tops(uint parts, uint split, uint h)
{
    return 2 * (parts + MAX_SPLITS * HEADS * D / 4) + split * HEADS + h;
}
