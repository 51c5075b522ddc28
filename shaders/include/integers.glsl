// Sums and maxima of integers over a whole workgroup of at most 1,024 threads, and subgroups of at least 8. They are exact, so that the order does
// not matter. Each ends with every thread holding the result, and may be called again at once.
//
// `holders` is how many of the first subgroups may hold anything but zeros: often it is one, and then the others have nothing to do. Of more
// than a few, the subgroups' values are combined by every subgroup for itself, its lanes taking those of a subgroup each.
const uint FEW = 4;

shared uvec4 integer_sums[3 * 128];
shared uvec2 integer_maxima[128];

// Three sums and two maxima at once, for the price of the same barriers.
void workgroup_reduce(inout uvec4 a, inout uvec4 b, inout uvec4 c, inout uvec2 maxima, uint holders) {
    holders = min(holders, subgroups_per_workgroup());
    barrier(); // the previous reduction's readers are done
    if (gl_SubgroupID < holders) {
        a = subgroupAdd(a);
        b = subgroupAdd(b);
        c = subgroupAdd(c);
        maxima = subgroupMax(maxima);
        if (subgroupElect()) {
            integer_sums[gl_SubgroupID * 3] = a;
            integer_sums[gl_SubgroupID * 3 + 1] = b;
            integer_sums[gl_SubgroupID * 3 + 2] = c;
            integer_maxima[gl_SubgroupID] = maxima;
        }
    }
    barrier();
    a = b = c = uvec4(0);
    maxima = uvec2(0);
    bool few = holders <= FEW;
    for (uint i = few ? 0 : gl_SubgroupInvocationID; i < holders; i += few ? 1 : SUBGROUP) {
        a += integer_sums[i * 3];
        b += integer_sums[i * 3 + 1];
        c += integer_sums[i * 3 + 2];
        maxima = max(maxima, integer_maxima[i]);
    }
    if (few) return;
    a = subgroupAdd(a);
    b = subgroupAdd(b);
    c = subgroupAdd(c);
    maxima = subgroupMax(maxima);
}

// A sum and two maxima.
void workgroup_reduce(inout uvec4 sum, inout uvec2 maxima, uint holders) {
    holders = min(holders, subgroups_per_workgroup());
    barrier();
    if (gl_SubgroupID < holders) {
        sum = subgroupAdd(sum);
        maxima = subgroupMax(maxima);
        if (subgroupElect()) {
            integer_sums[gl_SubgroupID] = sum;
            integer_maxima[gl_SubgroupID] = maxima;
        }
    }
    barrier();
    sum = uvec4(0);
    maxima = uvec2(0);
    bool few = holders <= FEW;
    for (uint i = few ? 0 : gl_SubgroupInvocationID; i < holders; i += few ? 1 : SUBGROUP) {
        sum += integer_sums[i];
        maxima = max(maxima, integer_maxima[i]);
    }
    if (few) return;
    sum = subgroupAdd(sum);
    maxima = subgroupMax(maxima);
}

uvec2 workgroup_max(uvec2 value, uint holders) {
    holders = min(holders, subgroups_per_workgroup());
    barrier();
    if (gl_SubgroupID < holders) {
        value = subgroupMax(value);
        if (subgroupElect()) integer_maxima[gl_SubgroupID] = value;
    }
    barrier();
    uvec2 all = uvec2(0);
    bool few = holders <= FEW;
    for (uint i = few ? 0 : gl_SubgroupInvocationID; i < holders; i += few ? 1 : SUBGROUP) all = max(all, integer_maxima[i]);
    return few ? all : subgroupMax(all);
}
uint workgroup_max(uint value, uint holders) { return workgroup_max(uvec2(value, 0), holders).x; }

// A number of 64 bits in parts of 22, whose sums over a workgroup fit into 32 bits.
uvec3 in_parts(uint64_t value) { return uvec3(uint(value) & 0x3fffffu, uint(value >> 22) & 0x3fffffu, uint(value >> 44)); }
uint64_t of_parts(uvec3 parts) { return uint64_t(parts.x) + (uint64_t(parts.y) << 22) + (uint64_t(parts.z) << 44); }

// The sum of the values of the lanes before the own one, by `lane_index`, and of all.
uint workgroup_sum_before(uint value, out uint total) {
    uint before = subgroupExclusiveAdd(value), own = subgroupAdd(value);
    barrier();
    if (subgroupElect()) integer_maxima[gl_SubgroupID].x = own;
    barrier();
    uvec2 sums = uvec2(0); // of the subgroups before, and of all
    for (uint i = gl_SubgroupInvocationID; i < subgroups_per_workgroup(); i += SUBGROUP) {
        uint other = integer_maxima[i].x;
        sums += uvec2(i < gl_SubgroupID ? other : 0, other);
    }
    sums = subgroupAdd(sums);
    total = sums.y;
    return before + sums.x;
}
