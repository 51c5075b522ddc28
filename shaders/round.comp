// Rounds f32 activations for matrix products whose workgroups could not keep them: they are read once here instead of by each workgroup.
// A subgroup rounds a group of 256 elements.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;   // [vectors, COLUMNS] f32
    uint64_t y;   // [vectors, COLUMNS] rounded
    uint vectors;
    uint stride;  // bytes from one token's x and y to the next one's
} push;

void main() {
    if (!step_is_live(push.state)) return;
    uint groups = group_count(COLUMNS), vector = flat_subgroup() / groups, group = flat_subgroup() % groups;
    if (vector >= push.vectors) return;
    uint64_t x = own_copy(push.x, push.stride) + uint64_t(vector * COLUMNS * 4u);
    vec4 parts[LANE_PARTS];
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
        uint part = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
        parts[n] = part < COLUMNS / 4 ? load_vec4(x, part * 16u) : vec4(0.0);
    }
    store_rounded(own_copy(push.y, push.stride) + uint64_t(vector * rounded_bytes(groups)), groups, group, parts);
}
