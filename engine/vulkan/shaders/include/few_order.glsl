/* The order of halves that moe_few.comp reads without taking them apart: of each 128 columns the first 8 of each 32, then the next 8 of
 * each, so that four neighbouring threads, with a chunk each, read neighbouring words; of 8 columns 0 4 1 5 2 6 3 7 (halves_order). */

/* Where 8 columns from `column` on begin. */
uint few_place(uint column)
{
    return (column & ~127u) + (column / 8 % 4 * 4 + column / 32 % 4) * 8;
}

/* The first of the two columns, 4 apart, of word i. */
uint few_column(uint i)
{
    return i / 64 * 128 + i / 4 % 4 * 32 + i / 16 % 4 * 8 + i % 4;
}
