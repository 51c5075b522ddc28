// Joins what the chosen experts of each row give, onto the residual stream: y = y + (weights[0] * products[0] + weights[1] * products[1] + ...), in the
// order of their ranks. A thread joins four neighbouring elements.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t products; // [slots, width] f32
    uint64_t weights;  // [slots] f32
    uint64_t y;        // [width] f32
    uint width;        // a multiple of 4
    uint slots;        // at least 1
    uint products_stride; // bytes from one row of the step to the next, as the strides below
    uint weights_stride;
    uint y_stride;
} push;

void main() {
    uint i = (flat_workgroup() * workgroup_size() + thread_index()) * 4u;
    if (!row_is_live(push.state) || i >= push.width) return;
    uint64_t products = of_row(push.products, push.products_stride), weights = of_row(push.weights, push.weights_stride);
    uint64_t y = of_row(push.y, push.y_stride);
    precise vec4 sum = load_uniform_f32(weights, 0) * load_vec4(products, i * 4u);
    for (uint slot = 1; slot < push.slots; slot++) {
        precise vec4 share = load_uniform_f32(weights, slot * 4u) * load_vec4(products, (slot * push.width + i) * 4u);
        sum = sum + share;
    }
    sum = load_vec4(y, i * 4u) + sum;
    store_vec4(y, i * 4u, sum);
}
