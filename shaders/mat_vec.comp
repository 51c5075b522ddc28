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
layout(constant_id = 4) const uint NORM = 0;       // 1: x is the residual stream and is normalised first
layout(constant_id = 5) const uint ROWS = 1;       // of a matrix at a time, by one subgroup
layout(constant_id = 6) const uint AHEAD = 1;      // chunks of each row that a lane loads before it uses the first
layout(constant_id = 7) const uint EARLY = 0;      // 1: the first weights are loaded before the vector is prepared
layout(constant_id = 8) const uint ACCUMULATE = 0; // 1: onto what y holds
layout(constant_id = 9) const uint FORMAT_0 = 0;
layout(constant_id = 10) const uint FORMAT_1 = 255;
layout(constant_id = 11) const uint FORMAT_2 = 255;
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

const uint CHUNKS = COLUMNS / 32;
const uint WORKGROUP_ROWS = gl_WorkGroupSize.x / SUBGROUP * ROWS;

// One matrix of the launch.
struct Product {
    uint64_t weights;
    uint64_t bias;
    uint64_t y;
    uint rows;
};

#define LOAD_WEIGHTS(at) { \
    [[unroll]] for (uint n = 0; n < AHEAD; n++) { \
        uint first_chunk = (at) + n * SUBGROUP, chunk = first_chunk + gl_SubgroupInvocationID; \
        if (inside(first_chunk, CHUNKS)) { \
            [[unroll]] for (uint r = 0; r < ROWS; r++) raw[n * ROWS + r] = load_raw(format, row[r], COLUMNS, chunk); \
        } \
    } \
}

// Rows [WORKGROUP_ROWS * turn, WORKGROUP_ROWS * (turn + 1)) of a matrix. The operand is prepared in the workgroup's first turn.
void multiply(uint format, Product product, uint turn, bool live, bool prepare, inout Operand operand) {
    uint first = turn * WORKGROUP_ROWS + gl_SubgroupID * ROWS;
    uint64_t row[ROWS];
    float sums[ROWS], before[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        row[r] = product.weights + uint64_t(min(first + r, product.rows - 1)) * uint64_t(row_bytes(format, COLUMNS));
        sums[r] = 0.0;
        before[r] = ACCUMULATE == 1 ? load_f32(product.y, min(first + r, product.rows - 1) * 4u) : 0.0;
    }
    Raw raw[AHEAD * ROWS];
    if (ACT != ACT_F32) LOAD_WEIGHTS(0)
    if (EARLY == 1 && ACT != ACT_F32) {
        if (!live) return;
        if (prepare) operand = prepare_operand(own_copy(push.x, push.stride), push.norm, push.epsilon);
    }
    if (ACT != ACT_F32) {
        [[unroll]] for (uint at = 0; at < CHUNKS; at += AHEAD * SUBGROUP) {
            if (at > 0) LOAD_WEIGHTS(at)
            [[unroll]] for (uint n = 0; n < AHEAD; n++) {
                uint first_chunk = at + n * SUBGROUP, chunk = first_chunk + gl_SubgroupInvocationID;
                if (inside(first_chunk, CHUNKS)) {
                    ChunkInput x = chunk_input(operand, format, chunk);
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        sums[r] += quantised_dot(format, unpack(format, raw[n * ROWS + r], chunk), x);
                    }
                }
            }
        }
    } else {
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = row_dot(format, row[r], operand, gl_SubgroupInvocationID, SUBGROUP);
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float sum = subgroupAdd(sums[r]);
        if (subgroupElect() && first + r < product.rows) {
            if (product.bias != 0) sum += load_f32(product.bias, (first + r) * 4u);
            if (ACCUMULATE == 1) sum += before[r];
            store_f32(product.y, (first + r) * 4u, sum);
        }
    }
}

uint turns(uint rows) { return (rows + WORKGROUP_ROWS - 1) / WORKGROUP_ROWS; }

void main() {
    bool live = step_is_live(push.state);
    uint turns_0 = turns(push.rows_0), turns_1 = turns(push.rows_1), turns_2 = turns(push.rows_2);
    uint workgroups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    uint64_t x = own_copy(push.x, push.stride);
    Operand operand = Operand(x, push.norm, 1.0);
    bool prepare = true;
    load_operand(x, push.norm);
    if (EARLY == 0 || ACT == ACT_F32) {
        if (!live) return;
        operand = prepare_operand(x, push.norm, push.epsilon);
        prepare = false;
    }
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
        if (format == FORMAT_0) multiply(FORMAT_0, product, at, live, prepare, operand);
        else if (FORMAT_1 != NO_FORMAT && FORMAT_1 != FORMAT_0 && format == FORMAT_1) multiply(FORMAT_1, product, at, live, prepare, operand);
        else if (FORMAT_2 != NO_FORMAT && FORMAT_2 != FORMAT_0 && FORMAT_2 != FORMAT_1) multiply(FORMAT_2, product, at, live, prepare, operand);
        if (EARLY == 1) {
            if (!live) return;
            prepare = false;
        }
    }
}
