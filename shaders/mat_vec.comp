// Up to three matrices times a vector, for each token of the step: y = W x, W x + bias, or y + W x. The vector may be normalised on the way (q, k and v of a layer,
// the head). A subgroup computes ROWS rows at a time, so that what it read of the vector serves all of them; the subgroups of a workgroup are at
// the same matrix.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint ACT = 0;
layout(constant_id = 3) const uint COLUMNS = 32;
layout(constant_id = 4) const uint SOURCE = 0;
layout(constant_id = 5) const uint ROWS = 1;       // of a matrix at a time, by one subgroup: 1, 2 or 4
layout(constant_id = 6) const uint AHEAD = 1;      // quarters of each row that a lane loads before it uses the first: AHEAD * ROWS is at most 4
layout(constant_id = 7) const uint ACCUMULATE = 0; // 1: onto what y holds
layout(constant_id = 8) const uint FORMAT_0 = 0;
layout(constant_id = 9) const uint FORMAT_1 = 255;
layout(constant_id = 10) const uint FORMAT_2 = 255;
#define VECTORS 1
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/products.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;           // [COLUMNS]
    uint64_t norm;        // [COLUMNS] f32, read where NORM is 1
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
    float epsilon;
    uint stride;          // bytes from one token's x and y to the next one's
} push;

// Rows of a subgroup at a time: lanes that share a row have ROWS of them each.
const uint SUBGROUP_ROWS = ROWS * (ACT == ACT_Q14 ? LANE_ROWS : 1);
const uint WORKGROUP_ROWS = SUBGROUPS * SUBGROUP_ROWS;

// One matrix of the launch.
struct Product {
    uint64_t weights;
    uint64_t bias;
    uint64_t y;
    uint rows;
};

shared float values[ACT == ACT_Q14 ? WORKGROUP_ROWS * GROUPS : 1]; // [row, group]

// Products with activations of 14 bits of the lane's rows. Lane number r ends with the subgroup's row r.
float rounded_products(uint format, uint64_t row[ROWS], uint64_t x) {
    for (uint step = 0; step < STEPS; step += AHEAD) {
        Quarter weights[AHEAD * ROWS];
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            uint quarter = (step + n) * ROW_LANES + row_lane();
            [[unroll]] for (uint r = 0; r < ROWS; r++) weights[n * ROWS + r] = load_quarter(format, row[r], COLUMNS, quarter);
        }
        Items items;
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            uint quarter = (step + n) * ROW_LANES + row_lane();
            QuarterInput v = quarter_input(format, x, 0, quarter);
            [[unroll]] for (uint r = 0; r < ROWS; r++) take_item(items, n * ROWS + r, format, weights[n * ROWS + r], v, quarter);
        }
        uint own = own_item(AHEAD * ROWS), group = ((step + own / ROWS) * ROW_LANES + row_lane()) / 4;
        float value = item_value(items, AHEAD * ROWS, format, load_scale(x, 0, min(group, GROUPS - 1)));
        if (own < AHEAD * ROWS && group < GROUPS) values[(gl_SubgroupID * SUBGROUP_ROWS + lane_row() * ROWS + own % ROWS) * GROUPS + group] = value;
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    uint first = (gl_SubgroupID * SUBGROUP_ROWS + min(gl_SubgroupInvocationID, SUBGROUP_ROWS - 1)) * GROUPS;
    precise float sum = values[first];
    for (uint group = 1; group < GROUPS; group++) sum = sum + values[first + group];
    // The next rows' values take the place of these.
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    return sum;
}

// Products with f32 activations.
float float_products(uint format, uint64_t row[ROWS], Operand operand) {
    float own = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float sum = subgroupAdd(row_dot(format, row[r], operand, gl_SubgroupInvocationID, SUBGROUP));
        if (gl_SubgroupInvocationID == r) own = sum;
    }
    return own;
}

// Rows [WORKGROUP_ROWS * turn, WORKGROUP_ROWS * (turn + 1)) of a matrix.
void multiply(uint format, Product product, uint turn, Operand operand) {
    uint first = turn * WORKGROUP_ROWS + gl_SubgroupID * SUBGROUP_ROWS;
    uint64_t row[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint own_row = first + (ACT == ACT_Q14 ? lane_row() * ROWS : 0) + r;
        row[r] = product.weights + uint64_t(min(own_row, product.rows - 1)) * uint64_t(row_bytes(format, COLUMNS));
    }
    uint own = first + gl_SubgroupInvocationID;
    bool real = gl_SubgroupInvocationID < SUBGROUP_ROWS && own < product.rows;
    float before = ACCUMULATE == 1 && real ? load_f32(product.y, own * 4u) : 0.0;
    float bias = product.bias != 0 && real ? load_f32(product.bias, own * 4u) : 0.0;
    precise float sum;
    if (ACT == ACT_Q14) sum = rounded_products(format, row, operand.x);
    else sum = float_products(format, row, operand);
    if (product.bias != 0) sum = sum + bias;
    if (ACCUMULATE == 1) sum = before + sum;
    if (real) store_f32(product.y, own * 4u, sum);
}

uint turns(uint rows) { return (rows + WORKGROUP_ROWS - 1) / WORKGROUP_ROWS; }

void main() {
    bool live = step_is_live(push.state);
    uint turns_0 = turns(push.rows_0), turns_1 = turns(push.rows_1), turns_2 = turns(push.rows_2);
    uint workgroups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    uint64_t x = own_copy(push.x, push.stride);
    load_operand(x, push.norm, 0);
    if (!live) return;
    Operand operand = Operand(x, push.norm, 1.0);
    if (ACT == ACT_F32) operand = prepare_operand(x, push.norm, push.epsilon);
    stage(push.epsilon);
    barrier();
    for (uint turn = flat_workgroup(); turn < turns_0 + turns_1 + turns_2; turn += workgroups) {
        // Matrices of one format share its code: what a dispatch must fetch of instructions counts.
        uint format = FORMAT_0, at = turn;
        Product product = Product(push.weights_0, push.bias_0, push.y_0, push.rows_0);
        if (FORMAT_1 != NO_FORMAT && turn >= turns_0) {
            format = FORMAT_1;
            at = turn - turns_0;
            product = Product(push.weights_1, push.bias_1, push.y_1, push.rows_1);
        }
        if (FORMAT_2 != NO_FORMAT && turn >= turns_0 + turns_1) {
            format = FORMAT_2;
            at = turn - turns_0 - turns_1;
            product = Product(push.weights_2, push.bias_2, push.y_2, push.rows_2);
        }
        product.y = own_copy(product.y, push.stride);
        if (format == FORMAT_0) multiply(FORMAT_0, product, at, operand);
        else if (FORMAT_1 != NO_FORMAT && FORMAT_1 != FORMAT_0 && format == FORMAT_1) multiply(FORMAT_1, product, at, operand);
        else if (FORMAT_2 != NO_FORMAT && FORMAT_2 != FORMAT_0 && FORMAT_2 != FORMAT_1) multiply(FORMAT_2, product, at, operand);
    }
}
