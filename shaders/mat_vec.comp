// Up to three matrices times one vector: y = W x, W x + bias, or y + W x. The vector may be normalised on the way (q, k and v of a layer,
// the head). A subgroup computes ROWS rows of one matrix at a time, so that what it read of the vector serves all of them.
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
layout(constant_id = 6) const uint ACCUMULATE = 0; // 1: onto what y holds
layout(constant_id = 7) const uint FORMAT_0 = 0;
layout(constant_id = 8) const uint FORMAT_1 = 255;
layout(constant_id = 9) const uint FORMAT_2 = 255;
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
} push;

const uint CHUNKS = COLUMNS / 32;

void multiply(uint format, Operand operand, uint64_t weights, uint64_t bias, uint64_t y, uint rows, uint row_bytes, uint first) {
    uint64_t row[ROWS];
    float sums[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        row[r] = weights + uint64_t(min(first + r, rows - 1)) * uint64_t(row_bytes);
        sums[r] = 0.0;
    }
    if (ACT == ACT_Q8) {
        [[unroll]] for (uint at = 0; at < CHUNKS; at += SUBGROUP) {
            uint chunk = at + gl_SubgroupInvocationID;
            if (chunk < CHUNKS) {
                Raw raw[ROWS];
                [[unroll]] for (uint r = 0; r < ROWS; r++) raw[r] = load_raw(format, row[r], COLUMNS, chunk);
                ChunkInput x = chunk_input(operand, format, chunk);
                [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] += quantised_dot(format, unpack(format, raw[r], chunk), x);
            }
        }
    } else {
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = row_dot(format, row[r], operand);
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float sum = subgroupAdd(sums[r]);
        if (subgroupElect() && first + r < rows) {
            if (bias != 0) sum += load_f32(bias, (first + r) * 4u);
            if (ACCUMULATE == 1) sum += load_f32(y, (first + r) * 4u);
            store_f32(y, (first + r) * 4u, sum);
        }
    }
}

void main() {
    if (!step_is_live(push.state)) return;
    Operand operand = prepare_operand(push.x, push.norm, push.epsilon);
    uint groups_0 = (push.rows_0 + ROWS - 1) / ROWS, groups_1 = (push.rows_1 + ROWS - 1) / ROWS, groups_2 = (push.rows_2 + ROWS - 1) / ROWS;
    uint stride = gl_NumWorkGroups.x * gl_NumWorkGroups.y * subgroups_per_workgroup();
    for (uint group = flat_subgroup(); group < groups_0 + groups_1 + groups_2; group += stride) {
        if (group < groups_0) {
            multiply(FORMAT_0, operand, push.weights_0, push.bias_0, push.y_0, push.rows_0, row_bytes(FORMAT_0, COLUMNS), group * ROWS);
        } else if (FORMAT_1 != NO_FORMAT && group < groups_0 + groups_1) {
            multiply(
                FORMAT_1, operand, push.weights_1, push.bias_1, push.y_1, push.rows_1, row_bytes(FORMAT_1, COLUMNS),
                (group - groups_0) * ROWS);
        } else if (FORMAT_2 != NO_FORMAT) {
            multiply(
                FORMAT_2, operand, push.weights_2, push.bias_2, push.y_2, push.rows_2, row_bytes(FORMAT_2, COLUMNS),
                (group - groups_0 - groups_1) * ROWS);
        }
    }
}
