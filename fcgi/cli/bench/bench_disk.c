/* Differences of the expert cache's counters, summed over the repeats of a case. */
#include "fcgi/cli/bench/bench_disk.h"

void bench_disk_add(struct bench_disk *d, const struct expert_counters *before,
                    const struct expert_counters *after)
{
    d->asked += after->asked - before->asked;
    d->hits += after->hits - before->hits;
    d->late += after->late - before->late;
    d->misses += after->misses - before->misses;
    d->read_bytes += after->disk.bytes - before->disk.bytes;
    d->needed_bytes += after->miss_bytes - before->miss_bytes + after->prefetch_useful_bytes -
                       before->prefetch_useful_bytes;
    d->read_ns += after->disk.read_ns - before->disk.read_ns;
    d->wait_ns += after->wait_ns - before->wait_ns;
}
