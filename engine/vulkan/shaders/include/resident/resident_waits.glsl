/* What resident.comp and resident_few.comp share of their waits: addresses, counters. The includer defines AT_USED and AT_MEETINGS. */
uint64_t weight_at(uint units)
{
    return p.weights + uint64_t(units) * RESIDENT_UNIT;
}
uint64_t work_at(uint units)
{
    return p.work + uint64_t(units) * RESIDENT_UNIT;
}
#define USED_AT work_at(AT_USED) /* [n_layer][RESIDENT_USED_WORDS], and a word: a wait gave up */
#define GAVE_UP Counter(USED_AT + uint64_t(p.n_layer * RESIDENT_USED_WORDS * 4)).at[0]

const uint MOST_POLLS = 1 << 18; /* over 0.1 s where a poll is a load from the device's memory */

/* How many workgroups have come to a meeting. */
Counter meeting_of(uint meeting)
{
    return Counter(work_at(AT_MEETINGS) + uint64_t((p.layer * RESIDENT_MEETINGS + meeting) * RESIDENT_LINE_WORDS * 4));
}

/* The step was given up, as far as this workgroup can know: whoever did said so before it came to any later meeting. */
bool is_given_up()
{
    return atomicLoad(GAVE_UP, gl_ScopeDevice, 0, gl_SemanticsRelaxed) != 0;
}

/* All of this workgroup's writes are done when it counts. */
void count_in(uint meeting)
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared | gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
    if (gl_LocalInvocationIndex == 0) {
        atomicAdd(meeting_of(meeting).at[0], 1, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
    }
}
