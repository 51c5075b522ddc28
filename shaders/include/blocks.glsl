// Products of a block of rows of weights with a tile of vectors, by fragments: for steps of many rows, and formats with a scale for 256 weights.
//
// Weights and activations are staged in shared memory as signed bytes, half a group at a time. A weight is staged as its code times the scale of its
// sub-block, which has at most 13 bits: `weight_base` * high + low, both bytes. So the sums of a whole group are sums of products of bytes, whatever
// the format, and fragments hold them: high with high, high with low, low with high and low with low. All of it is exact, and so equal to what
// `quarter_sums` gives. What follows once a group is docs/arithmetic.md's sequence of float operations, element by element.
// The sums with the minimums are products of 16 numbers, one for each run: the minimums, at most 63, with the sums of runs, which have 18 bits:
// 512 * high + low, each of the two in the form x + 2 * y with x and y signed bytes (`store_run_parts`). A row of minimums is followed by itself doubled.
//
// Subgroups share a block by rows and by vectors: ROW_SUBGROUPS of them have ROW_FRAGMENTS fragments of rows each, for every VECTOR_SUBGROUPS-th fragment
// of vectors.
//
// Whoever includes this has the specialisation constants COLUMNS, TILE, DEPTH, ROW_SUBGROUPS, ROW_FRAGMENTS and RAGGED, and defines MATRICES: the
// number of matrices that a block has rows of.

const uint STAGE_RUNS = 8;                    // of 16 elements: half a group
const uint STAGE_CHUNKS = STAGE_RUNS / 2;
const uint STAGED_ROW = 2 * STAGE_RUNS + 1;   // the high bytes, the low ones, and a place that keeps neighbouring rows in different banks
const uint BLOCK_ROWS = ROW_SUBGROUPS * ROW_FRAGMENTS * 16;
const uint VECTOR_SUBGROUPS = SUBGROUPS / ROW_SUBGROUPS;
const uint VECTOR_FRAGMENTS = TILE / 16 / VECTOR_SUBGROUPS; // of each subgroup
const uint FRAGMENTS = ROW_FRAGMENTS * VECTOR_FRAGMENTS;
const uint DEPTH_WORDS = DEPTH / 16;

// Rows of weights, then vectors; then minimums by row, and the high and the low part of the sums of runs by vector.
const uint VECTORS_AT = BLOCK_ROWS * STAGED_ROW;
const uint MINIMUMS_AT = VECTORS_AT + TILE * STAGED_ROW;
const uint SUMS_AT = MINIMUMS_AT + BLOCK_ROWS * 2;
shared uvec4 staged[SUMS_AT + 2 * TILE * 2];
shared float row_scales[BLOCK_ROWS];         // of the blocks of the present group
shared float row_minimum_scales[BLOCK_ROWS]; // of their minimums
shared float vector_scales[TILE];            // of the vectors' present groups

#include "include/fragments.glsl"

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

Integers sums[4 * FRAGMENTS];    // of the present group: [vectors, rows, 4], the products of high with high, high with low, low with high, low with low
Floats block_results[FRAGMENTS]; // [vectors, rows]

// What the high byte of a staged weight counts.
int weight_base(uint format) { return format == Q4_K ? 8 : 128; }
// The products of four codes, signed bytes, with a scale: their high bytes, and their low ones.
uvec2 scaled_bytes(uint format, uint codes, int scale) {
    // Codes up to 15 times the upper three bits of the scale, and times its lower three: no product leaves its byte.
    if (format == Q4_K) return codes * uvec2(uint(scale) >> 3, uint(scale) & 7u);
    // Two products at a time, in 16 bits each. Where they may be negative, 64 * 128 are added, which is 64 in the high bytes.
    uvec2 pairs;
    if (has_minimums(format)) {
        pairs = uvec2(codes, codes >> 8) & 0x00ff00ffu;
    } else {
        codes ^= 0x80808080u;
        pairs = (uvec2(codes, codes >> 8) & 0x00ff00ffu) - 0x00800080u;
    }
    pairs *= uint(scale);
    if (!has_minimums(format)) pairs += 0x20002000u;
    uint high = ((pairs.x >> 7) & 0x00ff00ffu) | ((pairs.y << 1) & 0xff00ff00u);
    uint low = (pairs.x & 0x007f007fu) | ((pairs.y << 8) & 0x7f007f00u);
    if (!has_minimums(format)) high = (high + 0x40404040u) ^ 0x80808080u;
    return uvec2(high, low);
}

// Stages a chunk of a row of weights.
void stage_chunk(uint format, uint row, uint chunk, Raw raw) {
    Chunk k = unpack(format, raw, chunk);
    ivec2 scale = integer_scales(format, raw, chunk).scale;
    uvec2 runs = chunk_runs(format, chunk) % STAGE_RUNS;
    uint at = row * STAGED_ROW;
    uvec2 x = scaled_bytes(format, k.a.x, scale.x), y = scaled_bytes(format, k.a.y, scale.x);
    uvec2 z = scaled_bytes(format, k.a.z, scale.x), w = scaled_bytes(format, k.a.w, scale.x);
    staged[at + runs.x] = uvec4(x.x, y.x, z.x, w.x);
    staged[at + STAGE_RUNS + runs.x] = uvec4(x.y, y.y, z.y, w.y);
    x = scaled_bytes(format, k.b.x, scale.y);
    y = scaled_bytes(format, k.b.y, scale.y);
    z = scaled_bytes(format, k.b.z, scale.y);
    w = scaled_bytes(format, k.b.w, scale.y);
    staged[at + runs.y] = uvec4(x.x, y.x, z.x, w.x);
    staged[at + STAGE_RUNS + runs.y] = uvec4(x.y, y.y, z.y, w.y);
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
        uint low = task(n) / STAGE_RUNS % 2, run = task(n) % STAGE_RUNS;
        vector_offsets[n] = tile_offsets[min(task(n) / (2 * STAGE_RUNS), count - 1)].x + low * low_bytes(GROUPS) + place(GROUPS, run) * 16u;
    }
    UNROLL for (uint n = 0; n < SUM_TASKS; n++) sums_offsets[n] = tile_offsets[min(task(n) / 4, count - 1)].x + run_parts(GROUPS) + task(n) % 4 * 16u;
    UNROLL for (uint n = 0; n < SCALE_TASKS; n++) scale_offsets[n] = tile_offsets[min(task(n), count - 1)].x + group_scales(GROUPS);
}

// Whether vector `vector` is to be brought, in a tile of `count` vectors. Where most tiles are full, to ask costs more than it saves.
bool is_brought(uint vector, uint count) { return vector < (RAGGED == 0 ? TILE : count); }

// Sends for the weights of a stage.
void load_weights(uint format, uint stage) {
    UNROLL for (uint n = 0; n < WEIGHT_TASKS; n++) {
        arriving_weights[n] = load_raw(format, weight_rows[n], COLUMNS, stage * STAGE_CHUNKS + task(n) % STAGE_CHUNKS);
    }
}
// Sends for what a stage needs of vectors.
void load_vectors(uint format, uint64_t x, uint stage, uint count) {
    uint64_t runs_at = x + uint64_t(stage * STAGE_RUNS * 16u), sums_at = x + uint64_t(stage * 32u), scales_at = x + uint64_t(stage * 2u);
    UNROLL for (uint n = 0; n < VECTOR_TASKS; n++) {
        if (is_brought(task(n) / (2 * STAGE_RUNS), count)) arriving_vectors[n] = load_uvec4(runs_at, vector_offsets[n]);
    }
    if (stage % 2 != 0) return;
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
        if (is_brought(vector, count)) staged[VECTORS_AT + vector * STAGED_ROW + task(n) % (2 * STAGE_RUNS)] = arriving_vectors[n];
    }
    if (stage % 2 != 0) return;
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

// Adds the products of a stage to the sums of the group.
void multiply_stage() {
    for (uint k = 0; k < STAGE_RUNS; k += DEPTH_WORDS) {
        WeightBytes high[ROW_FRAGMENTS], low[ROW_FRAGMENTS];
        UNROLL for (uint f = 0; f < ROW_FRAGMENTS; f++) {
            uint at = fragment_row(f) * STAGED_ROW + k;
            LOAD_WEIGHTS(high[f], at, STAGED_ROW);
            LOAD_WEIGHTS(low[f], at + STAGE_RUNS, STAGED_ROW);
        }
        UNROLL for (uint g = 0; g < VECTOR_FRAGMENTS; g++) {
            VectorBytes vector_high, vector_low;
            uint at = VECTORS_AT + fragment_vector(g) * STAGED_ROW + k;
            LOAD_VECTORS(vector_high, at, STAGED_ROW);
            LOAD_VECTORS(vector_low, at + STAGE_RUNS, STAGED_ROW);
            UNROLL for (uint f = 0; f < ROW_FRAGMENTS; f++) {
                uint n = 4 * (g * ROW_FRAGMENTS + f);
                sums[n] = MULTIPLY_ADD(high[f], vector_high, sums[n]);
                sums[n + 1] = MULTIPLY_ADD(high[f], vector_low, sums[n + 1]);
                sums[n + 2] = MULTIPLY_ADD(low[f], vector_high, sums[n + 2]);
                sums[n + 3] = MULTIPLY_ADD(low[f], vector_low, sums[n + 3]);
            }
        }
    }
}

// The products of the minimums of a fragment's rows with the sums of runs of its vectors, high or low ones.
Integers minimum_products(uint row, uint vector, uint part) {
    Integers sum = NO_INTEGERS;
    for (uint k = 0; k < 2; k += DEPTH_WORDS) {
        WeightBytes minimums;
        VectorBytes run_parts;
        LOAD_WEIGHTS(minimums, MINIMUMS_AT + row * 2 + k, 2);
        LOAD_VECTORS(run_parts, SUMS_AT + (part * TILE + vector) * 2 + k, 2);
        sum = MULTIPLY_ADD(minimums, run_parts, sum);
    }
    return sum;
}

// Adds the present group to the results, and empties the sums.
void finish_group(uint format, uint group) {
    UNROLL for (uint f = 0; f < ROW_FRAGMENTS; f++) {
        uint row = fragment_row(f);
        Floats row_scale, row_minimum_scale;
        LOAD_OF_ROWS(row_scale, row_scales, row);
        if (has_minimums(format)) LOAD_OF_ROWS(row_minimum_scale, row_minimum_scales, row);
        UNROLL for (uint g = 0; g < VECTOR_FRAGMENTS; g++) {
            uint vector = fragment_vector(g), n = g * ROW_FRAGMENTS + f;
            precise Floats value;
            if (has_apart_planes(format)) {
                Integers high = JOINED(sums[4 * n], weight_base(format), sums[4 * n + 2]);
                Integers low = JOINED(sums[4 * n + 1], weight_base(format), sums[4 * n + 3]);
                value = JOINED_FLOATS(FLOATS_OF(high), FLOATS_OF(low));
            } else {
                Integers high = JOINED(sums[4 * n], 128, sums[4 * n + 1]), low = JOINED(sums[4 * n + 2], 128, sums[4 * n + 3]);
                Integers whole = JOINED(high, weight_base(format), low);
                value = FLOATS_OF(whole);
            }
            value = PRODUCT(row_scale, value);
            if (has_minimums(format)) {
                Integers high = minimum_products(row, vector, 0), low = minimum_products(row, vector, 1);
                Integers whole = JOINED(high, 512, low);
                precise Floats minimum = PRODUCT(row_minimum_scale, FLOATS_OF(whole));
                value = DIFFERENCE(value, minimum);
            }
            Floats vector_scale;
            LOAD_OF_VECTORS(vector_scale, vector_scales, vector);
            precise Floats scaled = PRODUCT(vector_scale, value);
            if (group > 0) scaled = SUM(block_results[n], scaled);
            block_results[n] = scaled;
            UNROLL for (uint p = 0; p < 4; p++) sums[4 * n + p] = NO_INTEGERS;
        }
    }
}

// Multiplies rows of each matrix, of which `rows` are left from `first_row` on, with the first `count` vectors of the tile, and leaves the results in
// `block_results`. The vectors lie at `x`, each as many bytes behind as `tile_offsets` says. Every thread takes part.
void multiply_block(uint format, uint64_t first_row[MATRICES], uint rows, uint64_t x, uint count) {
    begin_block(format, first_row, rows, count);
    UNROLL for (uint n = 0; n < 4 * FRAGMENTS; n++) sums[n] = NO_INTEGERS;
    // Weights of experts come from memory and are loaded a stage ahead. Those of other matrices are in the cache, since workgroups of other tiles read them
    // as well; to load them ahead was measured to be slower.
    const bool early = RAGGED == 1;
    if (early) load_weights(format, 0);
    for (uint stage = 0; stage < GROUPS * 2; stage++) {
        if (!early) load_weights(format, stage);
        load_vectors(format, x, stage, count);
        barrier();
        fill_stage(format, stage, count);
        barrier();
        if (early && stage + 1 < GROUPS * 2) load_weights(format, stage + 1);
        multiply_stage();
        if (stage % 2 == 1) finish_group(format, stage / 2);
    }
}

// Results pass to all threads through shared memory, those of so many vectors at a time.
const uint SHOWN_VECTORS = VECTOR_SUBGROUPS * 16;
const uint SHOWN_ROW = BLOCK_ROWS / 4 + 1; // of one vector, with a place that keeps neighbours in different banks
// Puts the results of vectors [SHOWN_VECTORS * turn, SHOWN_VECTORS * (turn + 1)) where `shown_result` finds them.
void show_results(uint turn) {
    barrier();
    UNROLL for (uint g = 0; g < VECTOR_FRAGMENTS; g++) {
        if (g != turn) continue;
        UNROLL for (uint f = 0; f < ROW_FRAGMENTS; f++) {
            STORE_RESULTS(block_results[g * ROW_FRAGMENTS + f], vector_subgroup() * 16 * SHOWN_ROW + fragment_row(f) / 4, SHOWN_ROW);
        }
    }
    barrier();
}
float shown_result(uint vector, uint row) { return uintBitsToFloat(staged[vector % SHOWN_VECTORS * SHOWN_ROW + row / 4][row % 4]); }
