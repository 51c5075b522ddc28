// Products of a block of rows of weights with a tile of vectors, by fragments: for steps of many rows.
//
// Codes of weights and activations are staged in shared memory as signed bytes, STAGE_RUNS runs at a time. A part is as many elements as share the innermost
// scale of a format: 16 or 32. Of each part fragments hold two sums of products of bytes, with the high and with the low bytes of activations, exact in 32
// bits. With the part's scale they are added to what docs/arithmetic.md sums over a group: an integer, or two of them where the sums of both planes
// stay apart, or in formats with a scale for 32 the terms of each block, as floats. What follows once a group is its sequence of float operations, element by
// element. Integers are exact, and so equal to what `quarter_sums` gives.
//
// The sums with the minimums are products of 16 numbers, one for each run: the minimums, at most 63, with the sums of runs, which have 18 bits:
// 512 * high + low, each of the two in the form x + 2 * y with x and y signed bytes (`store_run_parts`). A row of minimums is followed by itself doubled.
//
// Subgroups share a block by rows and by vectors: ROW_SUBGROUPS of them have ROW_FRAGMENTS fragments of rows each, for every VECTOR_SUBGROUPS-th fragment
// of vectors.
//
// Where a launch has few blocks, several workgroups share the groups of one (`group_values.glsl`).
//
// Whoever includes this has the specialisation constants COLUMNS, TILE, DEPTH, STAGE_RUNS (4, 8 or 16), ROW_SUBGROUPS, ROW_FRAGMENTS, RAGGED, SPLITS, and those
// that say what the formats of the launch need of shared memory: GAPS, PART_SCALES, MINIMUMS and CHUNK_SUMS; and defines MATRICES, the number of matrices that a
// block has rows of.

const uint STAGE_CHUNKS = STAGE_RUNS / 2;    // of 32 elements
const uint GROUP_STAGES = 16 / STAGE_RUNS;
const uint DEPTH_RUNS = DEPTH / 16;
// Where a product takes 32 bytes and a part has 16, a run of zeros stands between the two runs of a chunk. The place behind the last run keeps neighbouring
// rows in different banks.
const uint STAGED_WEIGHTS = STAGE_RUNS + GAPS * STAGE_RUNS / 2 + 1;
const uint STAGED_VECTOR = 2 * STAGE_RUNS + 1; // the high bytes, the low ones, and such a place
const uint BLOCK_ROWS = ROW_SUBGROUPS * ROW_FRAGMENTS * 16;
const uint VECTOR_SUBGROUPS = SUBGROUPS / ROW_SUBGROUPS;
const uint VECTOR_FRAGMENTS = TILE / 16 / VECTOR_SUBGROUPS; // of each subgroup
const uint FRAGMENTS = ROW_FRAGMENTS * VECTOR_FRAGMENTS;

// Rows of weights, then vectors, the last without its spare place; then minimums by row, and the high and the low part of the sums of runs by vector.
const uint VECTORS_AT = BLOCK_ROWS * STAGED_WEIGHTS;
const uint MINIMUMS_AT = VECTORS_AT + TILE * STAGED_VECTOR - 1;
const uint SUMS_AT = MINIMUMS_AT + BLOCK_ROWS * 2;
shared uvec4 staged[MINIMUMS_AT + MINIMUMS * (BLOCK_ROWS * 2 + TILE * 4)];
// By part and row: the scales of the stage's parts, integers, or in formats with a scale for 32 floats: of each block its scale and that of its offset.
shared uint part_scales[PART_SCALES * STAGE_CHUNKS * BLOCK_ROWS];
shared float row_scales[BLOCK_ROWS];         // of the blocks of the present group
shared float row_minimum_scales[1 + MINIMUMS * (BLOCK_ROWS - 1)]; // of their minimums
shared float vector_scales[TILE];            // of the vectors' present groups
shared float chunk_sums[1 + CHUNK_SUMS * (STAGE_CHUNKS * TILE - 1)]; // by chunk of the stage and vector: the sums of the activations

#include "include/fragments.glsl"
#include "include/group_values.glsl"

// A thread loads from memory and stages: WEIGHT_TASKS chunks of rows of weights and VECTOR_TASKS runs of high or low bytes of vectors in each stage, and
// once a group SUM_TASKS runs of parts of the vectors' sums and SCALE_TASKS of their scales.
const uint WEIGHT_TASKS = (BLOCK_ROWS * STAGE_CHUNKS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint VECTOR_TASKS = (TILE * 2 * STAGE_RUNS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint SUM_TASKS = (TILE * 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint SCALE_TASKS = (TILE + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
uint task(uint n) { return thread_index() + n * gl_WorkGroupSize.x; }

// Where the thread's operands lie: addresses of its rows of weights, and of what is the vectors' the bytes from the first vector's beginning.
uint64_t weight_rows[WEIGHT_TASKS];
uint vector_offsets[VECTOR_TASKS];
uint sums_offsets[SUM_TASKS];
uint scale_offsets[SCALE_TASKS];
// What the thread has loaded and not staged yet.
Raw arriving_weights[WEIGHT_TASKS];
uvec4 arriving_vectors[VECTOR_TASKS];
uvec4 arriving_sums[SUM_TASKS];
float arriving_scales[SCALE_TASKS];

// The lane's subgroup among those that share the rows, and among those that share the vectors.
uint row_subgroup() { return gl_SubgroupID % ROW_SUBGROUPS; }
uint vector_subgroup() { return gl_SubgroupID / ROW_SUBGROUPS; }
// The first row of fragment `f` of the subgroup, and the first vector of its fragment `g`.
uint fragment_row(uint f) { return (row_subgroup() * ROW_FRAGMENTS + f) * 16; }
uint fragment_vector(uint g) { return (g * VECTOR_SUBGROUPS + vector_subgroup()) * 16; }

// Of the present group, by fragment of vectors, fragment of rows and plane: integers in formats with sub-blocks, of the second plane where planes stay
// apart.
Integers sums[2 * FRAGMENTS];
Floats block_values[FRAGMENTS];  // [vectors, rows]: of the present group, in formats with a scale for 32
Floats block_results[FRAGMENTS]; // [vectors, rows]

// Runs of a part.
uint part_runs(uint format) { return format == Q6_K || format == Q2_K || format == Q3_K ? 1 : 2; }
// Whether a run of zeros stands between the two runs of a pair: between places 2 * n and 2 * n + 1.
bool has_gaps(uint format) { return part_runs(format) < DEPTH_RUNS; }
// A stage has the runs of STAGE_CHUNKS chunks. In Q6_K they stand chunk by chunk, since a stage may have chunks of runs that are no neighbours; a part is
// one run there. In other formats they stand in their order. `stage_run` is the first of them, `run_of_place` counts from there.
uint stage_run(uint format, uint stage) {
    return format == Q6_K && STAGE_RUNS == 4 ? stage / 2 * 8 + stage % 2 * 2 : stage * STAGE_RUNS;
}
uint run_of_place(uint format, uint place) { return format == Q6_K ? place / 8 * 8 + place % 8 / 2 + place % 2 * 4 : place; }
// The places of the two runs of a chunk.
uvec2 chunk_places(uint format, uint chunk) {
    return format == Q6_K ? chunk % STAGE_CHUNKS * 2 + uvec2(0, 1) : chunk_runs(format, chunk) % STAGE_RUNS;
}
// Where a row of weights has what stands at a place.
uvec2 weight_places(uint format, uvec2 place) { return has_gaps(format) ? place + (place + 1) / 2 : place; }

// Stages a chunk of a row of weights.
void stage_chunk(uint format, uint row, uint chunk, Raw raw) {
    Chunk k = unpack(format, raw, chunk);
    uvec2 places = chunk_places(format, chunk), at = row * STAGED_WEIGHTS + weight_places(format, places);
    staged[at.x] = k.a;
    staged[at.y] = k.b;
    if (!has_sub_blocks(format)) {
        uvec2 scales = floatBitsToUint(k.a_scale);
        uint first = 2 * (chunk % STAGE_CHUNKS) * BLOCK_ROWS + row;
        part_scales[first] = scales.x;
        part_scales[first + BLOCK_ROWS] = scales.y;
        return;
    }
    // Of two neighbouring chunks of Q4_K and Q5_K both have the same two parts.
    if (has_k_pairs(format) && part_runs(format) == 2 && chunk % 2u == 1u) return;
    uvec2 scale = uvec2(integer_scales(format, raw, chunk).scale), parts = places / part_runs(format);
    part_scales[parts.x * BLOCK_ROWS + row] = scale.x;
    if (parts.x != parts.y) part_scales[parts.y * BLOCK_ROWS + row] = scale.y;
    if (chunk % 8u == 0u) {
        vec2 halves = block_halves(format, block_head(format, raw));
        row_scales[row] = halves.x;
        if (has_minimums(format)) {
            row_minimum_scales[row] = halves.y;
            uvec4 minimums = run_minimums(format, raw);
            staged[MINIMUMS_AT + row * 2u] = minimums;
            staged[MINIMUMS_AT + row * 2u + 1u] = minimums * 2u;
        }
    }
}

// Finds out where the thread's operands lie.
void begin_block(uint format, uint64_t first_row[MATRICES], uint rows, uint count) {
    UNROLL for (uint n = 0; n < WEIGHT_TASKS; n++) {
        // The rows of the first matrix are followed by as many of the second.
        uint row = min(task(n) / STAGE_CHUNKS, BLOCK_ROWS - 1), matrix = row / (BLOCK_ROWS / MATRICES);
        row = min(row % (BLOCK_ROWS / MATRICES), rows - 1);
        weight_rows[n] = first_row[matrix] + uint64_t(row) * uint64_t(row_bytes(format, COLUMNS));
    }
    UNROLL for (uint n = 0; n < VECTOR_TASKS; n++) {
        uint low = task(n) / STAGE_RUNS % 2, run = run_of_place(format, task(n) % STAGE_RUNS);
        vector_offsets[n] = tile_offsets[min(task(n) / (2 * STAGE_RUNS), count - 1)] + low * low_bytes(GROUPS) + place(GROUPS, run) * 16u;
    }
    UNROLL for (uint n = 0; n < SUM_TASKS; n++) {
        uint first = has_sub_blocks(format) ? run_parts(GROUPS) + task(n) % 4 * 16u : run_sums(GROUPS) + task(n) % 4 * 8u;
        sums_offsets[n] = tile_offsets[min(task(n) / 4, count - 1)] + first;
    }
    UNROLL for (uint n = 0; n < SCALE_TASKS; n++) scale_offsets[n] = tile_offsets[min(task(n), count - 1)] + group_scales(GROUPS);
    if (has_gaps(format)) {
        for (uint n = thread_index(); n < BLOCK_ROWS * STAGE_CHUNKS; n += gl_WorkGroupSize.x) {
            staged[n / STAGE_CHUNKS * STAGED_WEIGHTS + n % STAGE_CHUNKS * 3 + 1] = uvec4(0);
        }
    }
}

// Formats with a scale for 32 and an offset, which is multiplied with sums of activations.
bool has_chunk_sums(uint format) { return has_offset(format) && !has_sub_blocks(format); }

// Whether vector `vector` is to be brought, in a tile of `count` vectors. Where most tiles are full, to ask costs more than it saves.
bool is_brought(uint vector, uint count) { return vector < (RAGGED == 0 ? TILE : count); }

// Sends for the weights of a stage.
void load_weights(uint format, uint stage) {
    UNROLL for (uint n = 0; n < WEIGHT_TASKS; n++) {
        // Chunks behind the end are not multiplied.
        uint chunk = min(stage * STAGE_CHUNKS + task(n) % STAGE_CHUNKS, COLUMNS / 32 - 1);
        load_quants(format, weight_rows[n], COLUMNS, chunk, arriving_weights[n]);
        // A thread's chunks of a group are of one block, since a group has as many elements.
        if (!has_block_head(format) || stage % GROUP_STAGES == 0) load_head(format, weight_rows[n], COLUMNS, chunk, arriving_weights[n]);
    }
}
// Sends for what a stage needs of vectors.
void load_vectors(uint format, uint64_t x, uint stage, uint count) {
    uint64_t runs_at = x + uint64_t(stage_run(format, stage) * 16u), chunk_sums_at = x + uint64_t(stage * STAGE_RUNS * 4u);
    uint64_t sums_at = x + uint64_t(stage / GROUP_STAGES * 64u), scales_at = x + uint64_t(stage / GROUP_STAGES * 4u);
    UNROLL for (uint n = 0; n < VECTOR_TASKS; n++) {
        if (is_brought(task(n) / (2 * STAGE_RUNS), count)) arriving_vectors[n] = load_uvec4(runs_at, vector_offsets[n]);
    }
    if (has_chunk_sums(format)) {
        UNROLL for (uint n = 0; n < SUM_TASKS; n++) {
            if (task(n) % 4 < STAGE_CHUNKS && is_brought(task(n) / 4, count)) arriving_sums[n].xy = load_uvec2(chunk_sums_at, sums_offsets[n]);
        }
    }
    if (stage % GROUP_STAGES != 0) return;
    if (has_minimums(format)) {
        UNROLL for (uint n = 0; n < SUM_TASKS; n++) {
            if (is_brought(task(n) / 4, count)) arriving_sums[n] = load_uvec4(sums_at, sums_offsets[n]);
        }
    }
    UNROLL for (uint n = 0; n < SCALE_TASKS; n++) {
        if (is_brought(task(n), count)) arriving_scales[n] = load_f32(scales_at, scale_offsets[n]);
    }
}

// Stages what has arrived of a stage.
void fill_stage(uint format, uint stage, uint count) {
    UNROLL for (uint n = 0; n < WEIGHT_TASKS; n++) {
        uint row = task(n) / STAGE_CHUNKS, part = task(n) % STAGE_CHUNKS;
        if (row < BLOCK_ROWS) stage_chunk(format, row, stage * STAGE_CHUNKS + part, arriving_weights[n]);
    }
    UNROLL for (uint n = 0; n < VECTOR_TASKS; n++) {
        uint vector = task(n) / (2 * STAGE_RUNS);
        if (is_brought(vector, count)) staged[VECTORS_AT + vector * STAGED_VECTOR + task(n) % (2 * STAGE_RUNS)] = arriving_vectors[n];
    }
    if (has_chunk_sums(format)) {
        UNROLL for (uint n = 0; n < SUM_TASKS; n++) {
            if (task(n) % 4 < STAGE_CHUNKS && task(n) < TILE * 4) chunk_sums[task(n) % 4 * TILE + task(n) / 4] = float(int(arriving_sums[n].x + arriving_sums[n].y));
        }
    }
    if (stage % GROUP_STAGES != 0) return;
    if (has_minimums(format)) {
        UNROLL for (uint n = 0; n < SUM_TASKS; n++) {
            uint vector = task(n) / 4, part = task(n) % 4;
            if (is_brought(vector, count)) staged[SUMS_AT + (part / 2 * TILE + vector) * 2 + part % 2] = arriving_sums[n];
        }
    }
    UNROLL for (uint n = 0; n < SCALE_TASKS; n++) {
        if (is_brought(task(n), count)) vector_scales[task(n)] = arriving_scales[n];
    }
}

// Adds the terms of a block of a format with a scale for 32, the runs of pair `pair` of a stage, to the values of the group, given the sums of its codes.
void add_block(uint format, uint pair, uint row, uint vector, uint n, Floats codes) {
    Floats scale;
    LOAD_BITS_OF_ROWS(scale, part_scales, 2 * pair * BLOCK_ROWS + row);
    precise Floats term = PRODUCT(scale, codes);
    if (format == MXFP4) CLEAR_NEGLIGIBLE(term);
    precise Floats value = SUM(block_values[n], term);
    if (has_offset(format)) {
        Floats offset_scale, sum;
        LOAD_BITS_OF_ROWS(offset_scale, part_scales, (2 * pair + 1) * BLOCK_ROWS + row);
        LOAD_OF_VECTORS(sum, chunk_sums, pair * TILE + vector);
        precise Floats offset = PRODUCT(offset_scale, sum);
        value = SUM(value, offset);
    }
    block_values[n] = value;
}

// Whether fragment `g` of the subgroup's vectors has any, in a tile of `count` vectors. Fragments without vectors are not multiplied; a subgroup whose first
// one has none only helps to stage. Where most tiles are full, to ask costs more than it saves.
bool is_filled(uint g, uint count) { return RAGGED == 0 || fragment_vector(g) < count; }

// Adds what pair `pair` of the runs of a stage gives to the present group.
void multiply_pair(uint format, uint pair, uint count) {
    const uint parts = 2 / part_runs(format);
    // Products that take a part's bytes: one, or two of 16 bytes each.
    const uint part_products = part_runs(format) == 2 ? 2 / DEPTH_RUNS : 1;
    WeightBytes weights[2 * ROW_FRAGMENTS];
    Integers scales[2 * ROW_FRAGMENTS];
    UNROLL for (uint f = 0; f < ROW_FRAGMENTS; f++) {
        uint row = fragment_row(f), at = row * STAGED_WEIGHTS + (has_gaps(format) ? 3 : 2) * pair;
        UNROLL for (uint n = 0; n < parts * part_products; n++) LOAD_WEIGHTS(weights[2 * f + n], at + n, STAGED_WEIGHTS);
        if (has_sub_blocks(format)) {
            UNROLL for (uint part = 0; part < parts; part++) LOAD_INTEGERS_OF_ROWS(scales[2 * f + part], part_scales, (pair * parts + part) * BLOCK_ROWS + row);
        }
    }
    UNROLL for (uint g = 0; g < VECTOR_FRAGMENTS; g++) {
        if (g > 0 && !is_filled(g, count)) break;
        VectorBytes high[2], low[2];
        uint at = VECTORS_AT + fragment_vector(g) * STAGED_VECTOR + 2 * pair;
        UNROLL for (uint n = 0; n < 2 / DEPTH_RUNS; n++) {
            LOAD_VECTORS(high[n], at + n, STAGED_VECTOR);
            LOAD_VECTORS(low[n], at + STAGE_RUNS + n, STAGED_VECTOR);
        }
        UNROLL for (uint f = 0; f < ROW_FRAGMENTS; f++) {
            uint n = g * ROW_FRAGMENTS + f;
            UNROLL for (uint part = 0; part < parts; part++) {
                // Where runs of zeros stand between runs of weights, both parts meet all 32 bytes of a vector, half of them with zeros.
                uint v = has_gaps(format) ? 0 : part;
                Integers of_high = MULTIPLY_ADD(weights[2 * f + part], high[v], NO_INTEGERS);
                Integers of_low = MULTIPLY_ADD(weights[2 * f + part], low[v], NO_INTEGERS);
                if (part_products == 2) {
                    of_high = MULTIPLY_ADD(weights[2 * f + 1], high[1], of_high);
                    of_low = MULTIPLY_ADD(weights[2 * f + 1], low[1], of_low);
                }
                if (has_apart_planes(format)) {
                    sums[2 * n] = ADD_PRODUCT(sums[2 * n], scales[2 * f + part], of_high);
                    sums[2 * n + 1] = ADD_PRODUCT(sums[2 * n + 1], scales[2 * f + part], of_low);
                } else if (has_sub_blocks(format)) {
                    sums[2 * n] = ADD_PRODUCT(sums[2 * n], scales[2 * f + part], JOINED(of_high, 128, of_low));
                } else {
                    Integers codes = JOINED(of_high, 128, of_low);
                    add_block(format, pair, fragment_row(f), fragment_vector(g), n, FLOATS_OF(codes));
                }
            }
        }
    }
}

// The products of the minimums of a fragment's rows with the sums of runs of its vectors, high or low ones.
Integers minimum_products(uint row, uint vector, uint part) {
    Integers sum = NO_INTEGERS;
    for (uint k = 0; k < 2; k += DEPTH_RUNS) {
        WeightBytes minimums;
        VectorBytes run_parts;
        LOAD_WEIGHTS(minimums, MINIMUMS_AT + row * 2 + k, 2);
        LOAD_VECTORS(run_parts, SUMS_AT + (part * TILE + vector) * 2 + k, 2);
        sum = MULTIPLY_ADD(minimums, run_parts, sum);
    }
    return sum;
}

// What the fragment's sums of a group of a format with sub-blocks come to, without the scale of the activations.
Floats group_values(uint format, uint f, uint g) {
    uint row = fragment_row(f), n = g * ROW_FRAGMENTS + f;
    Floats row_scale;
    LOAD_OF_ROWS(row_scale, row_scales, row);
    precise Floats value = FLOATS_OF(sums[2 * n]);
    if (has_apart_planes(format)) value = JOINED_FLOATS(value, FLOATS_OF(sums[2 * n + 1]));
    value = PRODUCT(row_scale, value);
    if (has_minimums(format)) {
        Floats row_minimum_scale;
        LOAD_OF_ROWS(row_minimum_scale, row_minimum_scales, row);
        Integers high = minimum_products(row, fragment_vector(g), 0), low = minimum_products(row, fragment_vector(g), 1);
        Integers whole = JOINED(high, 512, low);
        precise Floats minimum = PRODUCT(row_minimum_scale, FLOATS_OF(whole));
        value = DIFFERENCE(value, minimum);
    }
    return value;
}

// Adding it changes no float, not even a zero's sign.
const float NOTHING = -0.0;

// Empties the sums for a group.
void begin_group() {
    UNROLL for (uint n = 0; n < FRAGMENTS; n++) {
        sums[2 * n] = NO_INTEGERS;
        sums[2 * n + 1] = NO_INTEGERS;
        block_values[n] = FLOATS(NOTHING);
    }
}

// Adds the present group to the results, or stores its values where workgroups share the groups.
void finish_group(uint format, uint group) {
    UNROLL for (uint g = 0; g < VECTOR_FRAGMENTS; g++) {
        Floats vector_scale;
        LOAD_OF_VECTORS(vector_scale, vector_scales, fragment_vector(g));
        UNROLL for (uint f = 0; f < ROW_FRAGMENTS; f++) {
            uint n = g * ROW_FRAGMENTS + f;
            Floats value = block_values[n];
            if (has_sub_blocks(format)) value = group_values(format, f, g);
            precise Floats scaled = PRODUCT(vector_scale, value);
            if (format == MXFP4) CLEAR_NEGLIGIBLE(scaled);
            if (SPLITS > 1) {
                STORE_SHARED(scaled, values_at, group * GROUP_VALUES + fragment_vector(g) * BLOCK_ROWS + fragment_row(f), BLOCK_ROWS);
                continue;
            }
            if (group > 0) scaled = SUM(block_results[n], scaled);
            block_results[n] = scaled;
        }
    }
}

// What is staged is used up when a workgroup has stored its values.
#define ARRIVED_BEFORE staged[0].x
#include "include/arrivals.glsl"

// Multiplies rows of each matrix, of which `rows` are left from `first_row` on, with the first `count` vectors of the tile, and leaves the results where
// `show_results` finds them. The vectors lie at `x`, each as many bytes behind as `tile_offsets` says. Where workgroups share the groups, `begin_values` has been
// called, and the last of them has the results. Says whether the workgroup has them. Every thread takes part and gets the same answer.
bool multiply_block(uint format, uint64_t first_row[MATRICES], uint rows, uint64_t x, uint count) {
    begin_block(format, first_row, rows, count);
    uvec2 groups = own_groups();
    load_weights(format, groups.x * GROUP_STAGES);
    for (uint stage = groups.x * GROUP_STAGES; stage < groups.y * GROUP_STAGES; stage++) {
        load_vectors(format, x, stage, count);
        barrier();
        fill_stage(format, stage, count);
        barrier();
        // Weights are loaded a stage ahead. Vectors are not: they are in the cache, since workgroups of other rows read them as well.
        if (stage + 1 < groups.y * GROUP_STAGES) load_weights(format, stage + 1);
        if (stage % GROUP_STAGES == 0) begin_group();
        if (is_filled(0, count)) {
            // Unrolled, this loop takes so many registers that a multiprocessor has no room for a second workgroup.
            [[dont_unroll]] for (uint pair = 0; pair < STAGE_RUNS / 2; pair++) {
                if (COLUMNS % 256 == 0 || stage * STAGE_CHUNKS + pair < COLUMNS / 32) multiply_pair(format, pair, count);
            }
            if (stage % GROUP_STAGES == GROUP_STAGES - 1) finish_group(format, stage / GROUP_STAGES);
        }
    }
    return SPLITS == 1 || last_to_arrive(values_counter, SPLITS);
}

// Where the results of vectors lie takes the place of the scales, which are no longer needed then.
#define RESULT_OFFSETS part_scales

// Results pass to all threads through shared memory, those of so many vectors at a time. Where workgroups share the groups, all of them are in memory.
const uint SHOWN_VECTORS = SPLITS > 1 ? TILE : VECTOR_SUBGROUPS * 16;
const uint SHOWN_TURNS = TILE / SHOWN_VECTORS;
const uint SHOWN_ROW = BLOCK_ROWS / 4 + 1; // of one vector, with a place that keeps neighbours in different banks
// Puts the results of vectors [SHOWN_VECTORS * turn, SHOWN_VECTORS * (turn + 1)) where `shown_results` finds them.
void show_results(uint turn) {
    if (SPLITS > 1) return;
    barrier();
    UNROLL for (uint g = 0; g < VECTOR_FRAGMENTS; g++) {
        if (g != turn) continue;
        UNROLL for (uint f = 0; f < ROW_FRAGMENTS; f++) {
            STORE_RESULTS(block_results[g * ROW_FRAGMENTS + f], vector_subgroup() * 16 * SHOWN_ROW + fragment_row(f) / 4, SHOWN_ROW);
        }
    }
    barrier();
}
// Those of four neighbouring rows, the first of which is a multiple of 4.
vec4 shown_results(uint vector, uint row) {
    if (SPLITS > 1) return sum_of_groups(vector, row);
    return uintBitsToFloat(staged[vector % SHOWN_VECTORS * SHOWN_ROW + row / 4]);
}
