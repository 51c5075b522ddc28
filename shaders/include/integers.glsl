// Sums and maxima of integers over a whole workgroup of at most 1,024 threads, and subgroups of at least 8. They are exact, so that the order does
// not matter. Each ends with every thread holding the result, and may be called again at once.
shared uvec4 integer_partials[128];

// Combines one value of each subgroup: first those at a distance of SUBGROUP, in each lane, then the lanes.
#define COMBINE(type, field, zero, pair, across)                                                                                       \
    barrier(); /* the previous reduction's readers are done */                                                                         \
    if (subgroupElect()) integer_partials[gl_SubgroupID].field = value;                                                                \
    barrier();                                                                                                                         \
    type all = zero;                                                                                                                   \
    for (uint i = gl_SubgroupInvocationID; i < subgroups_per_workgroup(); i += SUBGROUP) all = pair(all, integer_partials[i].field);   \
    return across(all);
#define PLUS(a, b) (a) + (b)

uvec4 workgroup_sum(uvec4 value) {
    value = subgroupAdd(value);
    COMBINE(uvec4, xyzw, uvec4(0), PLUS, subgroupAdd)
}

uint workgroup_max(uint value) {
    value = subgroupMax(value);
    COMBINE(uint, x, 0u, max, subgroupMax)
}

uvec2 workgroup_max(uvec2 value) {
    value = subgroupMax(value);
    COMBINE(uvec2, xy, uvec2(0), max, subgroupMax)
}

// A number of 64 bits in parts of 22, whose sums over a workgroup fit into 32 bits.
uvec3 in_parts(uint64_t value) { return uvec3(uint(value) & 0x3fffffu, uint(value >> 22) & 0x3fffffu, uint(value >> 44)); }
uint64_t of_parts(uvec3 parts) { return uint64_t(parts.x) + (uint64_t(parts.y) << 22) + (uint64_t(parts.z) << 44); }

uint64_t workgroup_sum(uint64_t value) { return of_parts(workgroup_sum(uvec4(in_parts(value), 0)).xyz); }

// The sum of the values of the lanes before the own one, by `lane_index`, and of all.
uint workgroup_sum_before(uint value, out uint total) {
    uint before = subgroupExclusiveAdd(value), own = subgroupAdd(value);
    barrier();
    if (subgroupElect()) integer_partials[gl_SubgroupID].x = own;
    barrier();
    uvec2 sums = uvec2(0); // of the subgroups before, and of all
    for (uint i = gl_SubgroupInvocationID; i < subgroups_per_workgroup(); i += SUBGROUP) {
        uint other = integer_partials[i].x;
        sums += uvec2(i < gl_SubgroupID ? other : 0, other);
    }
    sums = subgroupAdd(sums);
    total = sums.y;
    return before + sums.x;
}
