// Multiplies the results of a layer's heads by what opens their gates, for the product that follows: silu(gate) behind a gated delta net, where each head
// is RMS-normalised before, or sigmoid(gate) behind gated attention. A subgroup takes a group of 256 elements, which may be rounded for that product.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/sigmoid.glsl"
#include "include/silu.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;   // of all heads
layout(constant_id = 3) const uint HEAD_SIZE = 32; // where heads are normalised 32, 64, 128 or 256
layout(constant_id = 4) const uint NORMALISES = 0; // 1: each head is normalised
layout(constant_id = 5) const float EPSILON = 0.0; // of the normalisation
layout(constant_id = 6) const uint OPENING = 0;
layout(constant_id = 7) const uint OUT = 0;        // ACT_Q14: y is rounded
layout(constant_id = 8) const uint ORDERED = 0;    // 1: with the runs in their order
#define IN_ORDER (ORDERED == 1)
#include "include/activations.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;    // [COLUMNS / HEAD_SIZE, HEAD_SIZE] f32
    uint64_t gate; // [COLUMNS] f32
    uint64_t norm; // [HEAD_SIZE] f32, of every head, read where NORMALISES is 1
    uint64_t y;    // [COLUMNS] f32 or rounded; it may be x if it is f32
    uint x_stride; // bytes from one row of the step to the next, as the strides below
    uint gate_stride;
    uint y_stride;
} push;

const uint SILU = 0, SIGMOID = 1; // what OPENING may be
const uint PARTS = COLUMNS / 4, HEAD_PARTS = HEAD_SIZE / 4;

// Makes of the sums of the lane's parts those of their heads: part i of a head and the part half a head behind it are joined, and so on down to
// neighbours.
void join_heads(inout float sums[LANE_PARTS]) {
    [[unroll]] for (uint apart = 32; apart >= 1; apart /= 2) {
        if (apart >= HEAD_PARTS) continue;
        float others[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            others[n] = apart < SUBGROUP ? subgroupShuffleXor(sums[n], apart) : sums[(n ^ (apart / SUBGROUP)) % LANE_PARTS];
        }
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) sums[n] = sum_of_two(sums[n], others[n]);
    }
}

// Normalises the heads of the lane's parts.
void normalise_heads(inout vec4 parts[LANE_PARTS], vec4 weights[LANE_PARTS]) {
    float sums[LANE_PARTS];
    for (uint n = 0; n < LANE_PARTS; n++) sums[n] = part_squares(parts[n]);
    join_heads(sums);
    for (uint n = 0; n < LANE_PARTS; n++) {
        precise vec4 v = parts[n] * root_mean_scale(sums[n], HEAD_SIZE, EPSILON);
        v = v * weights[n];
        parts[n] = v;
    }
}

// What four elements are multiplied by.
vec4 opened(vec4 gate) {
    if (OPENING == SIGMOID) return sigmoid(gate);
    return silu(gate);
}

void main() {
    uint groups = group_count(COLUMNS), group = flat_subgroup();
    if (!row_is_live(push.state) || group >= groups) return;
    uint64_t x = of_row(push.x, push.x_stride), gate = of_row(push.gate, push.gate_stride), y = of_row(push.y, push.y_stride);
    vec4 parts[LANE_PARTS], gates[LANE_PARTS], weights[LANE_PARTS];
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
        uint part = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID, inside = min(part, PARTS - 1);
        parts[n] = load_vec4(x, inside * 16u);
        gates[n] = load_vec4(gate, inside * 16u);
        if (NORMALISES == 1) weights[n] = load_vec4(push.norm, inside % HEAD_PARTS * 16u);
    }
    if (NORMALISES == 1) normalise_heads(parts, weights);
    for (uint n = 0; n < LANE_PARTS; n++) {
        uint part = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
        precise vec4 gated = opened(gates[n]) * parts[n];
        parts[n] = part < PARTS ? gated : vec4(0.0);
        if (OUT == ACT_F32 && part < PARTS) store_vec4(y, part * 16u, gated);
    }
    if (OUT == ACT_Q14) store_rounded(y, groups, group, parts);
}
