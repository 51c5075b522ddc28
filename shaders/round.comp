// Rounds f32 activations for matrix products: each is rounded once here, instead of by each workgroup that needs it. They may be normalised on the
// way. A subgroup rounds a group of 256 elements.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint SOURCE = 0;      // FLOATS or NORMALISED
layout(constant_id = 4) const float EPSILON = 0.0;  // of the normalisation
layout(constant_id = 5) const uint ORDERED = 0;     // 1: with the runs in their order
#define IN_ORDER (ORDERED == 1)
#include "include/activations.glsl"
#define ACT ACT_F32
#define VECTORS 1
#include "include/operand.glsl"
#include "include/float_operand.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;    // [vectors, COLUMNS] f32
    uint64_t norm; // [COLUMNS] f32, read where SOURCE is NORMALISED: there is one vector then
    uint64_t y;    // [vectors, COLUMNS] rounded
    uint vectors;
    uint x_stride; // bytes from one row of the step to the next, as y_stride
    uint y_stride;
} push;

void main() {
    if (!row_is_live(push.state)) return;
    uint vector = min(flat_subgroup() / GROUPS, push.vectors - 1), group = flat_subgroup() - vector * GROUPS;
    uint64_t x = of_row(push.x, push.x_stride) + uint64_t(vector * COLUMNS * 4u);
    Operand operand = prepare_operand(x, push.norm, EPSILON);
    if (group >= GROUPS) return; // behind the last vector
    vec4 parts[LANE_PARTS];
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
        uint part = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
        parts[n] = part < PARTS ? operand_floats(operand, part) : vec4(0.0);
    }
    store_rounded(of_row(push.y, push.y_stride) + uint64_t(vector * rounded_bytes(GROUPS)), GROUPS, group, parts);
}
