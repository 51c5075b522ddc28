// Joins the shares that `attention` left for each head. One workgroup handles one head. A head with no position at all gives 0.
// Only an empty share has a sum of 0; one that is NaN counts, so that it stays visible.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t partials; // [heads, splits, head_size + 2] f32: weighted values, maximum, sum
    uint64_t y;        // [heads, head_size] f32
    uint head_size;
    uint splits;
} push;

void main() {
    if (!step_is_live(push.state)) return;
    uint head = flat_workgroup(), size = push.head_size;
    uint64_t shares = push.partials + uint64_t(head * push.splits * (size + 2) * 4);
    uint stride = (size + 2) * 4;
    float highest = uintBitsToFloat(0xff800000u);
    for (uint s = 0; s < push.splits; s++) highest = max(highest, load_f32(shares, s * stride + size * 4));
    float sum = 0.0;
    for (uint s = 0; s < push.splits; s++) {
        float share = load_f32(shares, s * stride + size * 4 + 4);
        if (share != 0.0) sum += share * exp(load_f32(shares, s * stride + size * 4) - highest);
    }
    for (uint i = thread_index(); i < size; i += workgroup_size()) {
        float value = 0.0;
        for (uint s = 0; s < push.splits; s++) {
            if (load_f32(shares, s * stride + size * 4 + 4) != 0.0) {
                value += load_f32(shares, s * stride + i * 4) * exp(load_f32(shares, s * stride + size * 4) - highest);
            }
        }
        store_f32(push.y, (head * size + i) * 4, sum != 0.0 ? value / sum : 0.0);
    }
}
