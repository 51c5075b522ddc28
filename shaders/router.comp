// The router of an expert layer: normalises the residual stream and multiplies it with the router's matrix.
//
// A workgroup computes one logit, in f32 whatever the form of other activations, because a rounded logit could choose another expert. On
// the way the normalised vector is stored for the experts: rounded where OUT is ACT_Q14.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint OUT = 0;
layout(constant_id = 4) const uint FORMAT = 0;
layout(constant_id = 5) const uint ORDERED = 0; // 1: with the runs of the rounded vector in their order
layout(constant_id = 6) const uint BIAS = 0;    // 1: it is added to the logits
#define IN_ORDER (ORDERED == 1)
#include "include/activations.glsl"
#define ACT ACT_F32
#define SOURCE NORMALISED
#define VECTORS 1
#include "include/operand.glsl"
#include "include/float_operand.glsl"
#include "include/float_products.glsl"
shared float values[GROUPS];
#define FLOAT_GROUPS 1 // the subgroups share out the groups of one row
#include "include/products.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;       // [COLUMNS] f32
    uint64_t norm;    // [COLUMNS] f32
    uint64_t matrix;  // [experts, COLUMNS] in FORMAT, rows in planes
    uint64_t bias;    // [experts] f32, read where BIAS is 1
    uint64_t y;       // [COLUMNS] f32, or rounded
    uint64_t logits;  // [experts] f32
    float epsilon;
    uint x_stride;    // bytes from one row of the step to the next, as the strides below
    uint y_stride;
    uint logits_stride;
} push;

void main() {
    bool live = row_is_live(push.state);
    uint row = gl_WorkGroupID.x;
    uint64_t x = of_row(push.x, push.x_stride);
    // The root mean square divides the sum in the end, so that the product need not wait for it.
    Operand operand = Operand(x, push.norm, 1.0);
    float bias = BIAS == 1 ? load_uniform_f32(push.bias, row * 4) : 0.0;
    uint64_t weights = push.matrix + uint64_t(row) * uint64_t(row_bytes(FORMAT, COLUMNS));
    uint at_a_time = groups_at_a_time(FORMAT);
    for (uint group = gl_SubgroupID * at_a_time; group < GROUPS; group += SUBGROUPS * at_a_time) sum_groups(FORMAT, weights, operand, 0, group);
    sum_squares(Vectors(x, push.norm, 0, 1));
    if (!live) return;
    barrier();
    operand.norm_scale = norm_scale(0, push.epsilon);
    if (thread_index() == 0) {
        precise float logit = values[0];
        for (uint group = 1; group < GROUPS; group++) logit = logit + values[group];
        logit = logit * operand.norm_scale;
        if (BIAS == 1) logit = logit + bias;
        store_f32(of_row(push.logits, push.logits_stride), row * 4, logit);
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
