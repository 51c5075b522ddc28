// The router of an expert layer for many rows of a step, and a matrix of floats: its logits, with the bits of `router`. The vectors for the experts are
// rounded by `round`.
//
// A workgroup computes LOGITS logits of ROWS rows, and each of its subgroups takes groups of their columns. A subgroup keeps what a group has of the weights of
// all LOGITS logits, and multiplies them by TURN_ROWS rows at a time: that makes as many sums as it has lanes. Lanes then exchange what they have of these, so
// that in the end each has one of them.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint FORMAT = 0;
layout(constant_id = 4) const uint ROWS = 32;  // a multiple of TURN_ROWS
layout(constant_id = 5) const uint LOGITS = 1; // at most as many as lanes, a power of two
layout(constant_id = 6) const uint BIAS = 0;   // 1: it is added to the logits

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;       // [COLUMNS] f32
    uint64_t norm;    // [COLUMNS] f32
    uint64_t matrix;  // [experts, COLUMNS] in FORMAT, rows in planes
    uint64_t bias;    // [experts] f32, read where BIAS is 1
    uint64_t logits;  // [experts] f32
    float epsilon;
    uint rows;        // that there are operands for
    uint experts;
    uint x_stride;    // bytes from one row of the step to the next, as logits_stride
    uint logits_stride;
} push;

const uint GROUPS = (COLUMNS + 255) / 256;
const uint PARTS = COLUMNS / 4;
#include "include/float_products.glsl"

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint RESULTS = ROWS * LOGITS;
const uint TURN_ROWS = SUBGROUP / LOGITS;
const uint TURN_PARTS = TURN_ROWS * LANE_PARTS; // of all these rows, in each lane
shared float group_products[GROUPS * RESULTS]; // [group, row, logit]
shared float group_squares[GROUPS * ROWS];

float own_sums[SUBGROUP]; // what the lane has of a turn's sums: of logit e of row r in place r * LOGITS + e

// Joins the first `2 * apart` of the lane's numbers with those of the lane that is `apart` further or before, each with its like, and leaves half of them.
void exchange(uint apart) {
    bool upper = (gl_SubgroupInvocationID & apart) != 0;
    [[unroll]] for (uint i = 0; i < apart; i++) {
        float low = own_sums[i % SUBGROUP], high = own_sums[(i + apart) % SUBGROUP];
        own_sums[i % SUBGROUP] = sum_of_two(upper ? high : low, subgroupShuffleXor(upper ? low : high, apart));
    }
}
// Sums each of the lanes' numbers over the lanes, in the order of `group_sum`, and gives lane n the sum of the n-th. Written out as `joined_parts` is, with
// remainders for the levels that are not taken.
float sums_by_lane() {
    if (SUBGROUP > 32) exchange(32);
    if (SUBGROUP > 16) exchange(16);
    if (SUBGROUP > 8) exchange(8);
    exchange(4);
    exchange(2);
    exchange(1);
    return own_sums[0];
}

// Sends for what TURN_ROWS rows from `first` on have of a group.
void load_rows(uint group, uint first, uint listed, out vec4 x[TURN_PARTS]) {
    [[unroll]] for (uint r = 0; r < TURN_ROWS; r++) {
        uint64_t row = push.x + uint64_t(min(first + r, listed - 1) * push.x_stride);
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) x[r * LANE_PARTS + n] = load_vec4(row, inside(own_part(group, n)) * 16u);
    }
}

// Puts the sums of a group's products into `group_products`, and those of the squares of its elements into `group_squares`. One subgroup does it.
void multiply_group(uint group, uint first_row, uint listed, uint first_logit) {
    vec4 norm[LANE_PARTS], weights[LOGITS * LANE_PARTS], arriving[TURN_PARTS];
    load_rows(group, first_row, listed, arriving);
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) norm[n] = load_vec4(push.norm, inside(own_part(group, n)) * 16u);
    [[unroll]] for (uint e = 0; e < LOGITS; e++) {
        uint64_t row = push.matrix + uint64_t(min(first_logit + e, push.experts - 1)) * uint64_t(row_bytes(FORMAT, COLUMNS));
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) weights[e * LANE_PARTS + n] = load_floats(FORMAT, row, inside(own_part(group, n)));
    }
    [[dont_unroll]] for (uint turn = 0; turn < ROWS; turn += TURN_ROWS) {
        if (first_row + turn >= listed) break;
        vec4 x[TURN_PARTS];
        [[unroll]] for (uint n = 0; n < TURN_PARTS; n++) x[n] = arriving[n];
        load_rows(group, first_row + min(turn + TURN_ROWS, ROWS - TURN_ROWS), listed, arriving);
        [[unroll]] for (uint r = 0; r < TURN_ROWS; r++) {
            float parts[LANE_PARTS];
            [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
                parts[n] = own_part(group, n) < PARTS ? part_squares(x[r * LANE_PARTS + n]) : 0.0;
                precise vec4 weighted = x[r * LANE_PARTS + n] * norm[n];
                x[r * LANE_PARTS + n] = weighted;
            }
            float sum = group_sum(parts);
            if (subgroupElect()) group_squares[group * ROWS + turn + r] = sum;
            [[unroll]] for (uint e = 0; e < LOGITS; e++) {
                [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
                    parts[n] = own_part(group, n) < PARTS ? part_product(weights[e * LANE_PARTS + n], x[r * LANE_PARTS + n]) : 0.0;
                }
                own_sums[r * LOGITS + e] = joined_parts(parts);
            }
        }
        group_products[group * RESULTS + turn * LOGITS + gl_SubgroupInvocationID] = sums_by_lane();
    }
}

void main() {
    uint listed = min(row_count(push.state), push.rows);
    uint first_row = gl_WorkGroupID.y * ROWS, first_logit = gl_WorkGroupID.x * LOGITS;
    if (first_row >= listed) return;
    for (uint group = gl_SubgroupID; group < GROUPS; group += SUBGROUPS) multiply_group(group, first_row, listed, first_logit);
    barrier();
    for (uint i = thread_index(); i < RESULTS; i += gl_WorkGroupSize.x) {
        uint r = i / LOGITS, row = first_row + r, expert = first_logit + i % LOGITS;
        precise float logit = group_products[i];
        precise float squares = group_squares[r];
        for (uint group = 1; group < GROUPS; group++) {
            logit = logit + group_products[group * RESULTS + i];
            squares = squares + group_squares[group * ROWS + r];
        }
        logit = logit * root_mean_scale(squares, COLUMNS, push.epsilon);
        if (BIAS == 1) logit = logit + load_f32(push.bias, min(expert, push.experts - 1) * 4u);
        if (row < listed && expert < push.experts) store_f32(push.logits + uint64_t(row * push.logits_stride), expert * 4u, logit);
    }
}
