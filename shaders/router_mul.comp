// The router of an expert layer for many rows of a step, and a matrix of floats: its logits, with the bits of `router`. The vectors for the experts are
// rounded by `round`.
//
// A workgroup computes LOGITS logits of ROWS rows: each of its subgroups takes groups of their columns. It multiplies for as many logits at a time as it has
// lanes, then lanes exchange what they have of them, so that in the end each has the sum of one.
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
layout(constant_id = 4) const uint ROWS = 1;   // at most as many as lanes, a power of two as LOGITS
layout(constant_id = 5) const uint LOGITS = 1; // ROWS * LOGITS is a multiple of the lanes

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;       // [COLUMNS] f32
    uint64_t norm;    // [COLUMNS] f32
    uint64_t matrix;  // [experts, COLUMNS] in FORMAT, rows in planes
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
const uint AT_A_TIME = SUBGROUP / ROWS; // logits of each row
shared float group_products[GROUPS * RESULTS]; // [group, logit, row]
shared float group_squares[GROUPS * ROWS];

// Sums each of a lane's numbers over the lanes, in the order of `group_sum`, and gives lane n the sum of the n-th.
float sums_by_lane(float of[SUBGROUP]) {
    [[unroll]] for (uint apart = SUBGROUP / 2; apart > 0; apart /= 2) {
        bool upper = (gl_SubgroupInvocationID & apart) != 0;
        [[unroll]] for (uint i = 0; i < apart; i++) {
            float other = subgroupShuffleXor(upper ? of[i] : of[i + apart], apart);
            precise float sum = (upper ? of[i + apart] : of[i]) + other;
            of[i] = sum;
        }
    }
    return of[0];
}

// Puts the sums of a group's products into `group_products`, and those of the squares of its elements into `group_squares`. One subgroup does it.
void multiply_group(uint group, uint first_row, uint listed, uint first_logit) {
    vec4 x[ROWS * LANE_PARTS], norm[LANE_PARTS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint64_t row = push.x + uint64_t(min(first_row + r, listed - 1) * push.x_stride);
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) x[r * LANE_PARTS + n] = load_vec4(row, inside(own_part(group, n)) * 16u);
    }
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) norm[n] = load_vec4(push.norm, inside(own_part(group, n)) * 16u);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            parts[n] = own_part(group, n) < PARTS ? part_squares(x[r * LANE_PARTS + n]) : 0.0;
            precise vec4 weighted = x[r * LANE_PARTS + n] * norm[n];
            x[r * LANE_PARTS + n] = weighted;
        }
        float sum = group_sum(parts);
        if (subgroupElect()) group_squares[group * ROWS + r] = sum;
    }
    for (uint first = 0; first < LOGITS; first += AT_A_TIME) {
        vec4 weights[AT_A_TIME * LANE_PARTS];
        [[unroll]] for (uint e = 0; e < AT_A_TIME; e++) {
            uint64_t row = push.matrix + uint64_t(min(first_logit + first + e, push.experts - 1)) * uint64_t(row_bytes(FORMAT, COLUMNS));
            [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) weights[e * LANE_PARTS + n] = load_floats(FORMAT, row, inside(own_part(group, n)));
        }
        float of[SUBGROUP];
        [[unroll]] for (uint e = 0; e < AT_A_TIME; e++) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                float parts[LANE_PARTS];
                [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
                    parts[n] = own_part(group, n) < PARTS ? part_product(weights[e * LANE_PARTS + n], x[r * LANE_PARTS + n]) : 0.0;
                }
                of[e * ROWS + r] = joined_parts(parts);
            }
        }
        group_products[group * RESULTS + first * ROWS + gl_SubgroupInvocationID] = sums_by_lane(of);
    }
}

void main() {
    uint listed = min(row_count(push.state), push.rows);
    uint first_row = gl_WorkGroupID.y * ROWS, first_logit = gl_WorkGroupID.x * LOGITS;
    if (first_row >= listed) return;
    for (uint group = gl_SubgroupID; group < GROUPS; group += SUBGROUPS) multiply_group(group, first_row, listed, first_logit);
    barrier();
    for (uint i = thread_index(); i < RESULTS; i += gl_WorkGroupSize.x) {
        uint r = i % ROWS, row = first_row + r, expert = first_logit + i / ROWS;
        precise float logit = group_products[i];
        precise float squares = group_squares[r];
        for (uint group = 1; group < GROUPS; group++) {
            logit = logit + group_products[group * RESULTS + i];
            squares = squares + group_squares[group * ROWS + r];
        }
        logit = logit * root_mean_scale(squares, COLUMNS, push.epsilon);
        if (row < listed && expert < push.experts) store_f32(push.logits + uint64_t(row * push.logits_stride), expert * 4u, logit);
    }
}
