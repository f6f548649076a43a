/* Attention between two dispatches of resident.comp or resident_few.comp without barriers: it waits for the one before, once all that does not depend on it is asked for,
 * and counts for the one that follows. Dispatches begin in order, so who is waited for runs; else the wait ends, nobody counts, and
 * these give up. */
const uint MOST_POLLS = 1 << 18; /* as resident.comp's */

shared bool in_vain;

U32 meeting(uint number)
{
    return U32(uint64_t(p.meetings) + 4ul * (number * RESIDENT_LINE_WORDS));
}

/* Whether the projections are there. */
bool wait_for_projections()
{
    U32 count = meeting(RESIDENT_PROJECTED);
    if (gl_LocalInvocationIndex == 0) {
        bool all = false;
        for (uint polls = 0; !all && polls < MOST_POLLS; polls++) { /* a software device ends a loop before that */
            all = atomicLoad(count.at[0], gl_ScopeDevice, 0, gl_SemanticsRelaxed) >= p.awaited;
        }
        in_vain = !all;
    }
    barrier();
    return !in_vain;
}

/* All of this workgroup's writes are done when it counts. */
void count_attended()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared | gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
    if (gl_LocalInvocationIndex == 0) {
        atomicAdd(meeting(RESIDENT_ATTENDED).at[0], 1, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
    }
}
