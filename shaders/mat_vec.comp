// Up to three matrices times a vector, for each row of the step: y = W x or y + W x, plus a bias. The vector may be normalised on the way (q, k and v
// of a layer, the head). A lane of a subgroup computes ROWS rows of a matrix at a time, so that what it read of the vector serves all of them, and
// VECTORS vectors, those of as many rows of the step, so that weights are read and unpacked once for all of them. The subgroups of a workgroup are
// at the same matrix.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint ACT = 0;
layout(constant_id = 3) const uint COLUMNS = 32;
layout(constant_id = 4) const uint SOURCE = 0;
layout(constant_id = 5) const uint ROWS = 1;       // of a matrix at a time, by a lane: 1, 2 or 4
layout(constant_id = 6) const uint AHEAD = 1;      // quarters of each row that a lane loads before it uses the first: AHEAD * ROWS is at most 4
layout(constant_id = 7) const uint ACCUMULATE = 0; // 1: onto what y holds
layout(constant_id = 8) const uint FORMAT_0 = 0;
layout(constant_id = 9) const uint FORMAT_1 = 255;
layout(constant_id = 10) const uint FORMAT_2 = 255;
layout(constant_id = 11) const uint VECTORS = 1;   // of a workgroup: those from gl_WorkGroupID.z * VECTORS on; 1 with f32 activations
layout(constant_id = 12) const float EPSILON = 0.0; // of the normalisation
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/float_operand.glsl"
#include "include/float_products.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;           // [COLUMNS]
    uint64_t norm;        // [COLUMNS] f32, read where SOURCE is NORMALISED
    uint64_t weights_0;   // [rows, COLUMNS] in FORMAT_0, rows in planes
    uint64_t weights_1;
    uint64_t weights_2;
    uint64_t bias_0;      // [rows] f32, or 0 for none
    uint64_t bias_1;
    uint64_t bias_2;
    uint64_t y_0;         // [rows] f32
    uint64_t y_1;
    uint64_t y_2;
    uint rows_0;
    uint rows_1;
    uint rows_2;
    uint vectors;         // that there are: rows of the step that have an x and a y
    uint x_stride;        // bytes from one row of the step to the next, as the strides below
    uint y_stride_0;
    uint y_stride_1;
    uint y_stride_2;
} push;

// Rows that a subgroup computes at a time: its lanes fall into LANE_ROWS sets, and each set computes ROWS rows.
const uint SUBGROUP_ROWS = ROWS * (ACT == ACT_Q14 ? LANE_ROWS : 1);
const uint WORKGROUP_ROWS = SUBGROUPS * SUBGROUP_ROWS;

// The most groups of a row whose values a workgroup of several vectors keeps all.
const uint MOST_KEPT_GROUPS = 16;

// One matrix of the launch.
struct Product {
    uint64_t weights;
    uint64_t bias;
    uint64_t y;
    uint y_stride;
    uint rows;
};

// The first of the workgroup's vectors, and how many of them there are.
uint first_vector() { return gl_WorkGroupID.z * VECTORS; }
uint vector_count() { return min(VECTORS, push.vectors - first_vector()); }

// A subgroup's results: result i is row i % SUBGROUP_ROWS of vector i / SUBGROUP_ROWS. Each lane stores some of them.
const uint RESULTS = SUBGROUP_ROWS * VECTORS;
const uint OWN_RESULTS = (RESULTS + SUBGROUP - 1) / SUBGROUP;
// A window is as many groups as lanes put values of into shared memory before these are added to the results. Where several vectors meet long rows it is
// those of one round of the loop over weights, so that a multiprocessor has room for many workgroups; else it is all groups.
const uint WINDOW = VECTORS == 1 ? GROUPS : GROUPS <= MOST_KEPT_GROUPS ? GROUPS : AHEAD * ROW_LANES / 4;
const uint WINDOW_PLACES = WINDOW == GROUPS ? GROUPS : WINDOW + 1; // the last one spreads results over memory banks
shared float values[SUBGROUPS * RESULTS * WINDOW_PLACES]; // [subgroup, vector, row, group of the window]
#include "include/products.glsl"

// Vectors whose items are summed over the lanes together.
const uint TOGETHER = VECTORS * AHEAD * ROWS <= 4 ? VECTORS : 4 / (AHEAD * ROWS);

// Where the values of the subgroup's result `result` begin.
uint window_place(uint result) { return (gl_SubgroupID * RESULTS + result) * WINDOW_PLACES; }

// The sum `before`, of all groups before group `first`, plus the values of the window that begins with it.
float with_window(float before, uint result, uint first) {
    uint at = window_place(result), count = WINDOW == GROUPS ? GROUPS : min(WINDOW, GROUPS - first);
    // What a sum begins with is not added to anything, not even to a zero.
    precise float sum = first == 0 ? values[at] : before + values[at];
    for (uint n = 1; n < count; n++) sum = sum + values[at + n];
    return sum;
}

// What the lanes of the subgroup have put into `values`, or read there, comes before what they do behind this.
void await_values() {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

// Adds the window that begins with group `first` to the lane's results.
void add_window(inout float sums[OWN_RESULTS], uint first) {
    await_values();
    [[unroll]] for (uint n = 0; n < OWN_RESULTS; n++) sums[n] = with_window(sums[n], min(n * SUBGROUP + gl_SubgroupInvocationID, RESULTS - 1), first);
    // The values of the next window take the place of these.
    await_values();
}

// Products with activations of 14 bits, of the lane's rows with the first `count` vectors of the workgroup: leaves the results in `sums`, or, if a window is
// all groups, their values in `values`.
void rounded_products(uint format, uint64_t row[ROWS], uint64_t x, uint count, out float sums[OWN_RESULTS]) {
    for (uint step = 0; step < STEPS; step += AHEAD) {
        uint first_group = WINDOW == GROUPS ? 0 : step * ROW_LANES / 4; // of the window
        Quarter weights[AHEAD * ROWS];
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            uint quarter = (step + n) * ROW_LANES + row_lane();
            [[unroll]] for (uint r = 0; r < ROWS; r++) weights[n * ROWS + r] = load_quarter(format, row[r], COLUMNS, quarter);
        }
        Unpacked unpacked[AHEAD * ROWS];
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            uint quarter = (step + n) * ROW_LANES + row_lane();
            [[unroll]] for (uint r = 0; r < ROWS; r++) unpacked[n * ROWS + r] = unpack_quarter(format, weights[n * ROWS + r], quarter);
        }
        // For a workgroup of one vector what depends on their number is constant, so that no load waits for it.
        for (uint first = 0; first < (VECTORS == 1 ? 1 : count); first += TOGETHER) {
            Items items;
            [[unroll]] for (uint v = 0; v < TOGETHER; v++) {
                uint vector = VECTORS == 1 ? 0 : min(first + v, count - 1);
                [[unroll]] for (uint n = 0; n < AHEAD; n++) {
                    uint quarter = (step + n) * ROW_LANES + row_lane();
                    QuarterInput own_input = quarter_input(format, x + uint64_t(vector * push.x_stride), vector, quarter);
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        take_item(items, (v * AHEAD + n) * ROWS + r, format, unpacked[n * ROWS + r], own_input, quarter);
                    }
                }
            }
            const uint item_count = TOGETHER * AHEAD * ROWS;
            uint own = own_item(item_count), own_row = lane_row() * ROWS + own % ROWS, own_vector = first + own / ROWS / AHEAD;
            uint group = ((step + own / ROWS % AHEAD) * ROW_LANES + row_lane()) / 4;
            uint vector = VECTORS == 1 ? 0 : min(own_vector, count - 1);
            float scale = load_scale(x + uint64_t(vector * push.x_stride), vector, min(group, GROUPS - 1));
            float value = item_value(items, item_count, format, scale);
            if (own < item_count && own_vector < VECTORS && group < GROUPS) {
                values[window_place(own_vector * SUBGROUP_ROWS + own_row) + group - first_group] = value;
            }
        }
        if (WINDOW != GROUPS) add_window(sums, first_group);
    }
}

// Rows [WORKGROUP_ROWS * turn, WORKGROUP_ROWS * (turn + 1)) of a matrix. Of the workgroup's vectors the step has `count`.
void multiply(uint format, Product product, uint turn, Operand operand, uint count) {
    uint first = turn * WORKGROUP_ROWS + gl_SubgroupID * SUBGROUP_ROWS;
    uint64_t row[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint own_row = first + (ACT == ACT_Q14 ? lane_row() * ROWS : 0) + r;
        row[r] = product.weights + uint64_t(min(own_row, product.rows - 1)) * uint64_t(row_bytes(format, COLUMNS));
    }
    float before[OWN_RESULTS], bias[OWN_RESULTS];
    [[unroll]] for (uint n = 0; n < OWN_RESULTS; n++) {
        uint index = min(n * SUBGROUP + gl_SubgroupInvocationID, RESULTS - 1);
        uint own_row = min(first + index % SUBGROUP_ROWS, product.rows - 1);
        uint vector = VECTORS == 1 ? 0 : min(index / SUBGROUP_ROWS, vector_count() - 1);
        before[n] = ACCUMULATE == 1 ? load_f32(product.y + uint64_t(vector * product.y_stride), own_row * 4u) : 0.0;
        bias[n] = product.bias != 0 ? load_f32(product.bias, own_row * 4u) : 0.0;
    }
    float sums[OWN_RESULTS];
    if (ACT == ACT_Q14) {
        rounded_products(format, row, operand.x, count, sums);
    } else {
        for (uint group = 0; group < GROUPS; group += groups_at_a_time(format)) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) sum_groups(format, row[r], operand, window_place(r), group);
        }
    }
    if (WINDOW == GROUPS) await_values();
    [[unroll]] for (uint n = 0; n < OWN_RESULTS; n++) {
        uint index = n * SUBGROUP + gl_SubgroupInvocationID;
        uint own_row = first + index % SUBGROUP_ROWS, vector = index / SUBGROUP_ROWS;
        if (index >= RESULTS || own_row >= product.rows || (VECTORS > 1 && vector >= count)) continue;
        precise float sum = WINDOW == GROUPS ? with_window(0.0, index, 0) : sums[n];
        if (product.bias != 0) sum = sum + bias[n];
        if (ACCUMULATE == 1) sum = before[n] + sum;
        store_f32(product.y + uint64_t(vector * product.y_stride), own_row * 4u, sum);
    }
    // The values of the next turn's rows take the place of these.
    if (WINDOW == GROUPS) await_values();
}

uint turns(uint rows) { return (rows + WORKGROUP_ROWS - 1) / WORKGROUP_ROWS; }

void main() {
    uint listed = row_count(push.state);
    uint turns_0 = turns(push.rows_0), turns_1 = turns(push.rows_1), turns_2 = turns(push.rows_2);
    uint workgroups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    uint64_t x = push.x + uint64_t(first_vector() * push.x_stride);
    Vectors vectors = Vectors(x, push.norm, push.x_stride, vector_count());
    load_operand(vectors);
    if (listed <= first_vector()) return;
    uint count = min(listed - first_vector(), vector_count());
    vectors.count = count;
    Operand operand = Operand(x, push.norm, 1.0);
    if (ACT == ACT_F32) operand = prepare_operand(x, push.norm, EPSILON);
    stage(vectors, EPSILON);
    barrier();
    for (uint turn = flat_workgroup(); turn < turns_0 + turns_1 + turns_2; turn += workgroups) {
        // Matrices of one format share its code: what a dispatch must fetch of instructions counts.
        uint format = FORMAT_0, at = turn;
        Product product = Product(push.weights_0, push.bias_0, push.y_0, push.y_stride_0, push.rows_0);
        if (FORMAT_1 != NO_FORMAT && turn >= turns_0) {
            format = FORMAT_1;
            at = turn - turns_0;
            product = Product(push.weights_1, push.bias_1, push.y_1, push.y_stride_1, push.rows_1);
        }
        if (FORMAT_2 != NO_FORMAT && turn >= turns_0 + turns_1) {
            format = FORMAT_2;
            at = turn - turns_0 - turns_1;
            product = Product(push.weights_2, push.bias_2, push.y_2, push.y_stride_2, push.rows_2);
        }
        product.y += uint64_t(first_vector() * product.y_stride);
        if (format == FORMAT_0) multiply(FORMAT_0, product, at, operand, count);
        else if (FORMAT_1 != NO_FORMAT && FORMAT_1 != FORMAT_0 && format == FORMAT_1) multiply(FORMAT_1, product, at, operand, count);
        else if (FORMAT_2 != NO_FORMAT && FORMAT_2 != FORMAT_0 && FORMAT_2 != FORMAT_1) multiply(FORMAT_2, product, at, operand, count);
    }
}
