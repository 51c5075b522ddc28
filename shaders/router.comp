// The router of an expert layer: normalises the residual stream and multiplies it with the router's matrix.
//
// A workgroup computes one logit, in f32 whatever the form of other activations, because a rounded logit could choose another expert. On
// the way the normalised vector is stored in the form OUT for the experts.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint OUT = 0;
layout(constant_id = 4) const uint FORMAT = 0;
const uint ACT = ACT_F32;
const uint NORM = 1;
#include "include/products.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;       // [COLUMNS] f32
    uint64_t norm;    // [COLUMNS] f32
    uint64_t matrix;  // [experts, COLUMNS] in FORMAT, rows in planes
    uint64_t y;       // [COLUMNS] in form OUT
    uint64_t logits;  // [experts] f32
    float epsilon;
    uint stride;      // bytes from one token's x, y and logits to the next one's
} push;

void main() {
    bool live = step_is_live(push.state);
    uint groups = gl_NumWorkGroups.x, row = gl_WorkGroupID.x;
    uint64_t x = own_copy(push.x, push.stride);
    Operand operand = Operand(x, push.norm, 1.0);
    // The root mean square divides the sum in the end, so that one pass serves both.
    vec2 sums = vec2(0.0);
    uint64_t weights = push.matrix + uint64_t(row) * uint64_t(row_bytes(FORMAT, COLUMNS));
    sums.x = row_dot(FORMAT, weights, operand, thread_index(), gl_WorkGroupSize.x);
    [[unroll]] for (uint first = 0; first < COLUMNS / 4; first += gl_WorkGroupSize.x) {
        uint part = first + thread_index();
        vec4 value = part < COLUMNS / 4 ? load_vec4(x, part * 16u) : vec4(0.0);
        sums.y += dot(value, value);
    }
    if (!live) return;
    sums = workgroup_sum(sums);
    operand.norm_scale = 1.0 / sqrt(sums.y / float(COLUMNS) + push.epsilon);
    if (thread_index() == 0) store_f32(own_copy(push.logits, push.stride), row * 4, sums.x * operand.norm_scale);
    // Each workgroup stores some runs, four lanes a run.
    const uint own = gl_WorkGroupSize.x / 4;
    uint64_t y = own_copy(push.y, push.stride);
    for (uint run = lane_index() / 4 * groups + row; run < RUNS; run += own * groups) {
        uint part = run * 4 + lane_index() % 4;
        store_act(OUT, y, COLUMNS, part, normalised(operand, part));
    }
}
