// Workgroups that share the groups of a block, in products by matrix units: a launch of few blocks has SPLITS of them for each block and tile, and each takes
// some neighbouring groups. docs/arithmetic.md adds the values of groups in order, so that a workgroup may not add up its own. It stores the scaled values of
// its groups to memory, and the workgroup that finishes last adds those of all groups.
//
// Whoever includes this has BLOCK_ROWS, TILE, and the specialisation constant SPLITS: a power of two, at most GROUPS. With 1 nothing is
// shared out, and nothing is stored.

const uint GROUP_COUNTERS = 1024; // of a launch: one for each block and tile
const uint GROUPS_AHEAD = 8; // of which values are loaded before the first is used
const uint GROUP_VALUES = TILE * BLOCK_ROWS; // of one group

uint64_t values_at;      // the values of the block's groups with the tile's vectors: [GROUPS, TILE, BLOCK_ROWS] f32
uint64_t values_counter; // by which the workgroups of the block and the tile find out which of them is the last

// Finds out where the values of the workgroup's block and tile go. `launch` is the address of GROUP_COUNTERS counters, which are 0 between launches, and behind
// them of the values of all blocks and tiles; it is of no interest where SPLITS is 1.
void begin_values(uint64_t launch) {
    uint place = flat_workgroup() / SPLITS * gl_NumWorkGroups.z + gl_WorkGroupID.z;
    values_counter = launch + uint64_t(place * 4u);
    values_at = launch + uint64_t(GROUP_COUNTERS * 4u) + uint64_t(place) * uint64_t(GROUPS * GROUP_VALUES * 4u);
}

// The workgroup's groups: the first, and the one behind the last.
uvec2 own_groups() {
    if (SPLITS == 1) return uvec2(0, GROUPS);
    uint split = flat_workgroup() % SPLITS;
    return uvec2(split, split + 1u) * GROUPS / SPLITS;
}

// The results of four neighbouring rows of the block, from `row` on, which is a multiple of 4.
vec4 sum_of_groups(uint vector, uint row) {
    uint at = (vector * BLOCK_ROWS + row) * 4u;
    vec4 sum = vec4(0.0);
    for (uint first = 0; first < GROUPS; first += GROUPS_AHEAD) {
        vec4 values[GROUPS_AHEAD];
        [[unroll]] for (uint n = 0; n < GROUPS_AHEAD; n++) {
            values[n] = load_vec4(values_at, min(first + n, GROUPS - 1u) * GROUP_VALUES * 4u + at);
        }
        [[unroll]] for (uint n = 0; n < GROUPS_AHEAD; n++) {
            if (first + n >= GROUPS) continue;
            precise vec4 next = sum + values[n];
            sum = first + n == 0u ? values[n] : next;
        }
    }
    return sum;
}
