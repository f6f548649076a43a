/* Sums over a workgroup. */
shared float reduce_parts[64];

float workgroup_sum(float v)
{
    v = subgroupAdd(v);
    barrier();
    if (gl_SubgroupInvocationID == 0) {
        reduce_parts[gl_SubgroupID & 63] = v;
    }
    barrier();
    float sum = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++) {
        sum += reduce_parts[i & 63];
    }
    return sum;
}

float workgroup_max(float v)
{
    v = subgroupMax(v);
    barrier();
    if (gl_SubgroupInvocationID == 0) {
        reduce_parts[gl_SubgroupID & 63] = v;
    }
    barrier();
    float top = reduce_parts[0];
    for (uint i = 1; i < gl_NumSubgroups; i++) {
        top = max(top, reduce_parts[i & 63]);
    }
    return top;
}
