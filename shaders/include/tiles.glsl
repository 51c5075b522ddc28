// Products of rows of a matrix with several vectors at once, for steps of many rows. A tile is a matrix and up to TILE vectors that it is multiplied
// with. Weights are read and unpacked once for all vectors of a tile.
//
// Four neighbouring lanes, a quad, take the quarters of a group of 256 elements, and go through the groups in order. A quad has QUAD_ROWS rows of
// a matrix. A set is four vectors: what the lanes of a quad have of a set's products is summed over the quad at once, and each lane ends
// with those of one vector. No lane waits for another quad.
//
// Vectors are rounded in memory.
//
// Whoever includes this has the specialisation constants TILE, QUAD_ROWS and COLUMNS, and defines MATRICES: 2 if a lane multiplies each vector with
// a row of a second matrix, too, otherwise 1.

const uint SET = TILE < 4 ? TILE : 4; // vectors
const uint SETS = TILE / SET;
const uint QUAD_RESULTS = MATRICES * QUAD_ROWS;
const uint SUBGROUP_ROWS = SUBGROUP / 4 * QUAD_ROWS; // of a matrix, by one subgroup
const uint BLOCK_ROWS = SUBGROUPS * SUBGROUP_ROWS;

// The row of the matrix that result `row` of the lane's quad is of, 0 to QUAD_ROWS - 1, given the first row of the workgroup.
uint quad_row(uint first, uint row) {
    return first + gl_SubgroupID * SUBGROUP_ROWS + row * (SUBGROUP / 4) + gl_SubgroupInvocationID / 4;
}

// The lane's results: [set, matrix, row], of the vector `own_vector` of each set.
float tile_results[SETS * QUAD_RESULTS];
uint own_vector(uint set) { return set * SET + own_item(SET); }
// Whether the lane is the one to store the results of a set, in a tile of `count` vectors: of sets of fewer than four vectors several lanes have them.
bool owns_vector(uint set, uint count) { return gl_SubgroupInvocationID % 4 < SET && own_vector(set) < count; }

// Adds what a group gives to the results of a matrix: `value` for the first group, which a sum begins with.
void add_group(uint result, uint group, float value) {
    precise float sum = tile_results[result] + value;
    tile_results[result] = group == 0 ? value : sum;
}

// Multiplies the quad's rows, at `row` in the order [matrix, row], with the first `count` vectors of the tile. The vectors lie at `x`, each as
// many bytes behind as `tile_offsets` says.
void multiply_tile(uint format_0, uint format_1, uint64_t row[QUAD_RESULTS], uint64_t x, uint count) {
    for (uint group = 0; group < GROUPS; group++) {
        uint quarter = group * 4 + gl_SubgroupInvocationID % 4;
        Quarter weights[QUAD_RESULTS];
        [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
            weights[r] = load_quarter(format_0, row[r], COLUMNS, quarter);
            if (MATRICES == 2) weights[QUAD_RESULTS - QUAD_ROWS + r] = load_quarter(format_1, row[QUAD_RESULTS - QUAD_ROWS + r], COLUMNS, quarter);
        }
        Unpacked unpacked[QUAD_RESULTS];
        [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
            unpacked[r] = unpack_quarter(format_0, weights[r], quarter);
            if (MATRICES == 2) unpacked[QUAD_RESULTS - QUAD_ROWS + r] = unpack_quarter(format_1, weights[QUAD_RESULTS - QUAD_ROWS + r], quarter);
        }
        [[unroll]] for (uint set = 0; set < SETS; set++) {
            if (set * SET >= count) continue;
            Items items[QUAD_RESULTS];
            [[unroll]] for (uint v = 0; v < SET; v++) {
                uint64_t vector = x + uint64_t(tile_offsets[min(set * SET + v, count - 1)]);
                QuarterInput own_input = quarter_input(format_0, vector, 0, quarter);
                [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) take_item(items[r], v, format_0, unpacked[r], own_input, quarter);
                if (MATRICES == 2) {
                    if (format_1 != format_0) own_input = quarter_input(format_1, vector, 0, quarter);
                    [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
                        take_item(items[QUAD_RESULTS - QUAD_ROWS + r], v, format_1, unpacked[QUAD_RESULTS - QUAD_ROWS + r], own_input, quarter);
                    }
                }
            }
            float scale = load_scale(x + uint64_t(tile_offsets[min(own_vector(set), count - 1)]), 0, group);
            [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
                add_group(set * QUAD_RESULTS + r, group, item_value(items[r], SET, format_0, scale));
                if (MATRICES == 2) {
                    uint other = QUAD_RESULTS - QUAD_ROWS + r;
                    add_group(set * QUAD_RESULTS + other, group, item_value(items[other], SET, format_1, scale));
                }
            }
        }
    }
}
