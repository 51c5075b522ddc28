// The second half of an expert layer, onto the residual stream: y += sum over slots of weight[s] * (D[ids[s]] h[s]).
// One subgroup computes one row for all slots, in slot order.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"

layout(constant_id = 2) const uint FORMAT = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t down;      // [experts, rows, columns] in FORMAT
    uint64_t row_bytes;
    uint64_t ids;       // [slots] u32
    uint64_t weights;   // [slots] f32
    uint64_t h;         // [slots, columns] f32
    uint64_t y;         // [rows] f32
    uint rows;
    uint columns;
    uint slots;
} push;

void main() {
    if (!step_is_live(push.state)) return;
    uint row = flat_subgroup();
    if (row >= push.rows) return;
    float sum = 0.0;
    for (uint slot = 0; slot < push.slots; slot++) {
        uint64_t matrix_row = uint64_t(load_u32(push.ids, slot * 4)) * uint64_t(push.rows) + uint64_t(row);
        uint64_t h = push.h + uint64_t(slot * push.columns * 4);
        sum += load_f32(push.weights, slot * 4) * row_dot(FORMAT, push.down + matrix_row * push.row_bytes, h, push.columns / 32);
    }
    if (subgroupElect()) store_f32(push.y, row * 4, load_f32(push.y, row * 4) + sum);
}
