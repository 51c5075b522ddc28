// y = W x, W x + bias, or y + W x. One subgroup computes one row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"

layout(constant_id = 2) const uint FORMAT = 0;
layout(constant_id = 3) const uint EPILOGUE = 0;
const uint STORE = 0, ADD_BIAS = 1, ACCUMULATE = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t weights;   // [rows, columns] in FORMAT
    uint64_t row_bytes;
    uint64_t x;         // [columns] f32
    uint64_t bias;      // [rows] f32, read by ADD_BIAS
    uint64_t y;         // [rows] f32
    uint rows;
    uint columns;
} push;

void main() {
    if (!step_is_live(push.state)) return;
    uint row = flat_subgroup();
    if (row >= push.rows) return;
    float sum = row_dot(FORMAT, push.weights + uint64_t(row) * push.row_bytes, push.x, push.columns / 32);
    if (!subgroupElect()) return;
    if (EPILOGUE == ADD_BIAS) sum += load_f32(push.bias, row * 4);
    if (EPILOGUE == ACCUMULATE) sum += load_f32(push.y, row * 4);
    store_f32(push.y, row * 4, sum);
}
