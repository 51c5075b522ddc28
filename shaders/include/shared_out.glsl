// How the workgroups of attention are shared out among the rows of a step whose contexts differ in length. Each row gets one workgroup, and of the rest as large a
// part as it has of the splits that all rows have beyond their first ones, but no more than it has splits. How many it gets changes no bit of its result.
//
// Whoever includes this has `workgroup.glsl`, `rows.glsl` and `window.glsl`, and defines SPLIT, the positions of a split.

// What a workgroup has: a row of the step, and of that row's shares number `share` of `shares`; 0 of these for a workgroup that is left over.
struct Share {
    uint row;
    uint share;
    uint shares;
};

// Splits that row `row` of the step has beyond its first one.
uint further_splits(uint64_t state, uint row) {
    uint position = load_u32(state, ROWS_OFFSET + row * ROW_BYTES + 8);
    return position / SPLIT - first_attended(position) / SPLIT;
}

// The share of workgroup number `workgroup` of `workgroups`, in a step of `rows` rows, which are at most as many. A left over workgroup has the row behind the
// last one, or row 0 if the step has no room for it: `room` rows. It has no share of a result; its row says where it may leave what it has read to warm the
// cache: in the row's last partial result, which is free in row 0 too, since a workgroup is left over only where rows have fewer splits than there is room for.
Share share_of(uint64_t state, uint workgroup, uint workgroups, uint rows, uint room) {
    uint lane = gl_SubgroupInvocationID, further = 0;
    for (uint first = 0; first < rows; first += SUBGROUP) {
        if (first + lane < rows) further += further_splits(state, first + lane);
    }
    further = max(subgroupAdd(further), 1u);
    uint spare = workgroups - rows, before = 0;
    for (uint first = 0; first < rows; first += SUBGROUP) {
        uint shares = 0;
        if (first + lane < rows) {
            uint own = further_splits(state, first + lane);
            shares = 1 + min(own, own * spare / further);
        }
        uint end = before + subgroupInclusiveAdd(shares);
        uint found = subgroupMin(workgroup < end ? lane : SUBGROUP);
        if (found < SUBGROUP) {
            uint own_end = subgroupShuffle(end, found), own_shares = subgroupShuffle(shares, found);
            return Share(first + found, workgroup - (own_end - own_shares), own_shares);
        }
        before = subgroupShuffle(end, SUBGROUP - 1);
    }
    return Share(rows < room ? rows : 0u, 0, 0);
}
