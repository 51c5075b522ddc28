// y = x / sqrt(mean(x^2) + epsilon) * weight, by one workgroup. (Zhang and Sennrich: Root Mean Square Layer Normalization, 2019.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;      // [columns] f32
    uint64_t weight; // [columns] f32
    uint64_t y;      // [columns] f32
    uint columns;
    float epsilon;
} push;

void main() {
    if (!step_is_live(push.state)) return;
    float squares = 0.0;
    for (uint i = thread_index(); i < push.columns; i += workgroup_size()) {
        float x = load_f32(push.x, i * 4);
        squares += x * x;
    }
    float scale = 1.0 / sqrt(workgroup_sum(squares) / float(push.columns) + push.epsilon);
    for (uint i = thread_index(); i < push.columns; i += workgroup_size()) {
        store_f32(push.y, i * 4, load_f32(push.x, i * 4) * scale * load_f32(push.weight, i * 4));
    }
}
