// The router of an expert layer: normalises the residual stream and multiplies it with the router's matrix.
//
// A workgroup computes one logit, in f32 whatever the form of other activations, because a rounded logit could choose another expert. On
// the way the normalised vector is stored for the experts: rounded where OUT is ACT_Q14.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint OUT = 0;
layout(constant_id = 4) const uint FORMAT = 0;
layout(constant_id = 5) const uint ORDERED = 0; // 1: with the runs of the rounded vector in their order
#define IN_ORDER (ORDERED == 1)
#include "include/activations.glsl"
#define ACT ACT_F32
#define SOURCE NORMALISED
#define VECTORS 1
#include "include/operand.glsl"
#include "include/products.glsl"
#include "include/float_products.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;       // [COLUMNS] f32
    uint64_t norm;    // [COLUMNS] f32
    uint64_t matrix;  // [experts, COLUMNS] in FORMAT, rows in planes
    uint64_t y;       // [COLUMNS] f32, or rounded
    uint64_t logits;  // [experts] f32
    float epsilon;
    uint x_stride;    // bytes from one row of the step to the next, as the strides below
    uint y_stride;
    uint logits_stride;
} push;

shared float group_products[GROUPS];

// Puts the products of the groups of a row of float weights with the operand into `group_products`, in the order that docs/arithmetic.md defines.
void multiply_groups(uint64_t weights, Operand operand) {
    for (uint group = gl_SubgroupID; group < GROUPS; group += SUBGROUPS) {
        float parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            uint part = own_part(group, n);
            float product = part_product(load_floats(FORMAT, weights, inside(part)), normalised(operand, inside(part)));
            parts[n] = part < PARTS ? product : 0.0;
        }
        float sum = group_sum(parts);
        if (subgroupElect()) group_products[group] = sum;
    }
}

void main() {
    bool live = row_is_live(push.state);
    uint row = gl_WorkGroupID.x;
    uint64_t x = of_row(push.x, push.x_stride);
    // The root mean square divides the sum in the end, so that the product need not wait for it.
    Operand operand = Operand(x, push.norm, 1.0);
    uint64_t weights = push.matrix + uint64_t(row) * uint64_t(row_bytes(FORMAT, COLUMNS));
    float logit = 0.0;
    if (is_float(FORMAT)) multiply_groups(weights, operand);
    else logit = row_dot(FORMAT, weights, operand, thread_index(), gl_WorkGroupSize.x);
    sum_squares(Vectors(x, push.norm, 0, 1));
    if (!live) return;
    if (is_float(FORMAT)) barrier();
    else logit = workgroup_sum(logit);
    operand.norm_scale = norm_scale(0, push.epsilon);
    if (thread_index() == 0) {
        precise float sum = logit;
        if (is_float(FORMAT)) {
            sum = group_products[0];
            for (uint group = 1; group < GROUPS; group++) sum = sum + group_products[group];
        }
        sum = sum * operand.norm_scale;
        store_f32(of_row(push.logits, push.logits_stride), row * 4, sum);
    }
    // Workgroup w stores groups w, w + the number of workgroups and so on.
    uint64_t y = of_row(push.y, push.y_stride);
    for (uint group = gl_SubgroupID * gl_NumWorkGroups.x + row; group < GROUPS; group += SUBGROUPS * gl_NumWorkGroups.x) {
        vec4 parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            uint part = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
            parts[n] = part < PARTS ? normalised(operand, part) : vec4(0.0);
            if (OUT == ACT_F32 && part < PARTS) store_vec4(y, part * 16u, parts[n]);
        }
        if (OUT == ACT_Q14) store_rounded(y, GROUPS, group, parts);
    }
}
