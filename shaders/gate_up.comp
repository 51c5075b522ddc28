// The first half of a SwiGLU feed-forward layer: y = silu(G x) * (U x), for each chosen expert, or for a dense layer.
// One subgroup computes one row of one slot. (Shazeer: GLU Variants Improve Transformer, 2020.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"

layout(constant_id = 2) const uint GATE_FORMAT = 0;
layout(constant_id = 3) const uint UP_FORMAT = 0;
layout(constant_id = 4) const uint EXPERTS = 0; // 1: slot s uses the matrices of expert ids[s]; 0: there is one slot and one pair

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t gate;           // [experts, rows, columns] in GATE_FORMAT
    uint64_t up;             // [experts, rows, columns] in UP_FORMAT
    uint64_t gate_row_bytes;
    uint64_t up_row_bytes;
    uint64_t ids;            // [slots] u32, read where EXPERTS is 1
    uint64_t x;              // [columns] f32
    uint64_t y;              // [slots, rows] f32
    uint rows;
    uint columns;
    uint slots;
} push;

void main() {
    if (!step_is_live(push.state)) return;
    uint index = flat_subgroup();
    if (index >= push.rows * push.slots) return;
    uint slot = index / push.rows, row = index % push.rows;
    uint64_t matrix_row = uint64_t(row);
    if (EXPERTS == 1) matrix_row += uint64_t(load_u32(push.ids, slot * 4)) * uint64_t(push.rows);
    uint units = push.columns / 32;
    float gate = row_dot(GATE_FORMAT, push.gate + matrix_row * push.gate_row_bytes, push.x, units);
    float up = row_dot(UP_FORMAT, push.up + matrix_row * push.up_row_bytes, push.x, units);
    if (subgroupElect()) store_f32(push.y, index * 4, gate / (1.0 + exp(-gate)) * up);
}
