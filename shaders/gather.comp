// Embedding: decodes the row of the step's token into the residual stream. One thread decodes one unit of 32 elements.
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
    uint64_t table;     // [vocabulary, columns] in FORMAT
    uint64_t row_bytes;
    uint64_t y;         // [columns] f32
    uint columns;
} push;

void main() {
    if (!step_is_live(push.state)) return;
    uint unit = flat_workgroup() * workgroup_size() + thread_index();
    if (unit >= push.columns / 32) return;
    vec4 v[8];
    decode_unit(FORMAT, push.table + uint64_t(StepState(push.state).token) * push.row_bytes, unit, v);
    for (uint j = 0; j < 8; j++) store_vec4(push.y, unit * 128 + j * 16, v[j]);
}
