// Joins what the chosen experts of each row give, onto the residual stream: y = y + (weights[0] * products[0] + weights[1] * products[1] + ...), in the
// order of their ranks, the last term being what a shared expert gives times the sigmoid of its gate. A thread joins four neighbouring elements.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/sigmoid.glsl"

layout(constant_id = 2) const uint SHARED = 0; // 1: there is a shared expert

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t products; // [slots, width] f32
    uint64_t weights;  // [slots] f32
    uint64_t y;        // [width] f32
    uint64_t shared_y;     // [width] f32, what the shared expert gives, read where SHARED is 1
    uint64_t shared_logit; // 1 f32, the logit of its gate, likewise
    uint width;        // a multiple of 4
    uint slots;        // at least 1
    uint products_stride; // bytes from one row of the step to the next, as the strides below
    uint weights_stride;
    uint y_stride;
    uint shared_y_stride;
    uint shared_logit_stride;
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
    if (SHARED == 1) {
        float opened = sigmoid(load_uniform_f32(of_row(push.shared_logit, push.shared_logit_stride), 0));
        precise vec4 share = opened * load_vec4(of_row(push.shared_y, push.shared_y_stride), i * 4u);
        sum = sum + share;
    }
    sum = load_vec4(y, i * 4u) + sum;
    store_vec4(y, i * 4u, sum);
}
