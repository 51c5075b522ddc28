// Products of rows of a matrix with several vectors at once, for steps of many rows. A tile is a matrix and up to TILE vectors that it is multiplied
// with. Weights are read and unpacked once for all vectors of a tile.
//
// Four neighbouring lanes, a quad, take the quarters of a group of 256 elements, and go through the groups in order. A quad has QUAD_ROWS rows of
// a matrix. No lane waits for another quad. Vectors are rounded in memory. There are two forms, which give the same bits:
//
// By sets of four vectors (IN_TURN is 0): what the lanes of a quad have of a set's products is summed over the quad at once, and each lane ends with
// those of one vector. A set is computed whole, and the code of all sets is written out.
//
// By one vector after the other (IN_TURN is 1): what the lanes of a quad have of four rows is summed over the quad at once, and each lane ends with
// those of one row. The vectors are a loop, so that the code is short, and only as many are computed as there are. This form is for drivers on a CPU. They
// skip nothing but the rounds of loops, since they compute both sides of a branch with lanes masked off, and they load the words of a vector lane by lane:
// the quads of a subgroup share these loads.
//
// Whoever includes this has the specialisation constants TILE, QUAD_ROWS and COLUMNS, and defines IN_TURN; MATRICES: 2 if a lane multiplies each vector
// with a row of a second matrix, too, otherwise 1; and `store_results`, which is declared below. IN_TURN is no specialisation constant, so that a module
// has one form: a driver reads the whole module for each pipeline.

const uint SET = TILE < 4 ? TILE : 4; // vectors
const uint SETS = TILE / SET;
const uint ROW_SET = QUAD_ROWS < 4 ? QUAD_ROWS : 4; // rows of a matrix that are summed at once, in turn
const uint ROW_SETS = QUAD_ROWS / ROW_SET;
const uint QUAD_RESULTS = MATRICES * QUAD_ROWS;
const uint SUBGROUP_ROWS = SUBGROUP / 4 * QUAD_ROWS; // of a matrix, by one subgroup
const uint BLOCK_ROWS = SUBGROUPS * SUBGROUP_ROWS;

// The row of the matrix that result `row` of the lane's quad is of, 0 to QUAD_ROWS - 1, given the first row of the workgroup.
uint quad_row(uint first, uint row) {
    return first + gl_SubgroupID * SUBGROUP_ROWS + row * (SUBGROUP / 4) + gl_SubgroupInvocationID / 4;
}

// The lane's results: by sets [set, matrix, row], of the vector `own_vector` of each set; in turn [vector, matrix, set of rows], of the row `own_item` of
// each set.
float tile_results[IN_TURN == 1 ? TILE * MATRICES * ROW_SETS : SETS * QUAD_RESULTS];
uint own_vector(uint set) { return set * SET + own_item(SET); }
// Whether the lane is the one to store the results of a set, in a tile of `count` vectors: of sets of fewer than four vectors several lanes have them.
bool owns_vector(uint set, uint count) { return gl_SubgroupInvocationID % 4 < SET && own_vector(set) < count; }

// Adds what a group gives to the results of a matrix: `value` for the first group, which a sum begins with.
void add_group(uint result, uint group, float value) {
    precise float sum = tile_results[result] + value;
    tile_results[result] = group == 0 ? value : sum;
}

// Unpacks quarter `quarter` of the quad's rows, which lie at `row` in the order [matrix, row].
void unpack_rows(uint format_0, uint format_1, uint64_t row[QUAD_RESULTS], uint quarter, out Unpacked unpacked[QUAD_RESULTS]) {
    Quarter weights[QUAD_RESULTS];
    [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
        weights[r] = load_quarter(format_0, row[r], COLUMNS, quarter);
        if (MATRICES == 2) weights[QUAD_RESULTS - QUAD_ROWS + r] = load_quarter(format_1, row[QUAD_RESULTS - QUAD_ROWS + r], COLUMNS, quarter);
    }
    [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
        unpacked[r] = unpack_quarter(format_0, weights[r], quarter);
        if (MATRICES == 2) unpacked[QUAD_RESULTS - QUAD_ROWS + r] = unpack_quarter(format_1, weights[QUAD_RESULTS - QUAD_ROWS + r], quarter);
    }
}

// `quarter_input` of a vector in memory, where the quads of a subgroup have the same quarters of it: the lanes of even quads load the high bytes, those
// of odd ones the low bytes, and each hands over what the other lacks.
QuarterInput halved_input(uint format, uint64_t x, uint quarter) {
    quarter = min(quarter, GROUPS * 4u - 1u);
    uvec2 first = chunk_runs(format, 2u * quarter), second = chunk_runs(format, 2u * quarter + 1u);
    uvec4 runs = uvec4(first, second);
    bool odd = (gl_SubgroupInvocationID & 4u) != 0u;
    uint plane = odd ? low_bytes(GROUPS) : 0u;
    QuarterInput v;
    [[unroll]] for (uint n = 0; n < 4; n++) {
        uvec4 own = load_uvec4(x, plane + place(GROUPS, runs[n]) * 16u), other = subgroupShuffleXor(own, 4);
        v.high[n] = odd ? other : own;
        v.low[n] = odd ? own : other;
    }
    v.sums = quarter_input_sums(format, x, 0, quarter);
    return v;
}

// Multiplies one vector after the other. A driver on a CPU tests at the bottom of a loop whether lanes are left in it, so that a loop whose condition
// stands at its top costs a round more. These have it at the bottom.
void multiply_in_turn(uint format_0, uint format_1, uint64_t row[QUAD_RESULTS], uint64_t x, uint count) {
    for (uint group = 0;;) {
        uint quarter = group * 4 + gl_SubgroupInvocationID % 4;
        Unpacked unpacked[QUAD_RESULTS];
        unpack_rows(format_0, format_1, row, quarter, unpacked);
        for (uint v = 0;;) {
            uint64_t vector = x + uint64_t(tile_offsets[v]);
            float scale = load_scale(vector, 0, group);
            QuarterInput own_input = halved_input(format_0, vector, quarter);
            [[unroll]] for (uint set = 0; set < MATRICES * ROW_SETS; set++) {
                uint format = set < ROW_SETS ? format_0 : format_1;
                if (set == ROW_SETS && format_1 != format_0) own_input = halved_input(format_1, vector, quarter);
                Items items;
                [[unroll]] for (uint r = 0; r < ROW_SET; r++) take_item(items, r, format, unpacked[set * ROW_SET + r], own_input, quarter);
                add_group(v * MATRICES * ROW_SETS + set, group, item_value(items, ROW_SET, format, scale));
            }
            if (++v >= count) break;
        }
        if (++group >= GROUPS) break;
    }
}

// Multiplies sets of vectors.
void multiply_sets(uint format_0, uint format_1, uint64_t row[QUAD_RESULTS], uint64_t x, uint count) {
    for (uint group = 0; group < GROUPS; group++) {
        uint quarter = group * 4 + gl_SubgroupInvocationID % 4;
        Unpacked unpacked[QUAD_RESULTS];
        unpack_rows(format_0, format_1, row, quarter, unpacked);
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

// Stores what the lane has of row `row` and of a vector of the tile: its product with the first matrix and, where there are two, with the second.
void store_results(uint vector, uint row, float first, float second);

// Multiplies the quad's rows, at `row` in the order [matrix, row], with the first `count` vectors of the tile, and stores the results. The vectors lie at `x`,
// each as many bytes behind as `tile_offsets` says. The workgroup's rows begin at `first_row` of a matrix of `rows` rows.
void multiply_tile(uint format_0, uint format_1, uint64_t row[QUAD_RESULTS], uint64_t x, uint count, uint first_row, uint rows) {
    if (IN_TURN == 1) {
        multiply_in_turn(format_0, format_1, row, x, count);
        if (gl_SubgroupInvocationID % 4 >= ROW_SET) return; // another lane has the same row
        for (uint v = 0;;) {
            [[unroll]] for (uint set = 0; set < ROW_SETS; set++) {
                uint own_row = quad_row(first_row, set * ROW_SET + own_item(ROW_SET)), result = v * MATRICES * ROW_SETS + set;
                if (own_row < rows) store_results(v, own_row, tile_results[result], tile_results[result + (MATRICES - 1) * ROW_SETS]);
            }
            if (++v >= count) break;
        }
        return;
    }
    multiply_sets(format_0, format_1, row, x, count);
    [[unroll]] for (uint set = 0; set < SETS; set++) {
        if (!owns_vector(set, count)) continue;
        [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
            uint own_row = quad_row(first_row, r), result = set * QUAD_RESULTS + r;
            if (own_row < rows) store_results(own_vector(set), own_row, tile_results[result], tile_results[result + (MATRICES - 1) * QUAD_ROWS]);
        }
    }
}
