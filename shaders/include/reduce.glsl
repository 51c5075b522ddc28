// Reductions over a whole workgroup of at most 1,024 threads and subgroups of at least 4. Each ends with every thread holding the
// result, and may be called again at once. Subgroup partials are combined in ascending order by every thread alike.
shared float reduce_partials[256];
shared vec2 reduce_pairs[256];

float workgroup_sum(float value) {
    float partial = subgroupAdd(value);
    barrier(); // the previous reduction's readers are done
    if (subgroupElect()) reduce_partials[gl_SubgroupID] = partial;
    barrier();
    float total = 0.0;
    for (uint i = 0; i < subgroups_per_workgroup(); i++) total += reduce_partials[i];
    return total;
}

vec2 workgroup_sum(vec2 value) {
    vec2 partial = subgroupAdd(value);
    barrier();
    if (subgroupElect()) reduce_pairs[gl_SubgroupID] = partial;
    barrier();
    vec2 total = vec2(0.0);
    for (uint i = 0; i < subgroups_per_workgroup(); i++) total += reduce_pairs[i];
    return total;
}
