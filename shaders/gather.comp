// Embedding: decodes the token of each row of the step, or the token behind it, into a vector of that row. One thread decodes one chunk of 32 elements.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"

layout(constant_id = 2) const uint FORMAT = 0;
layout(constant_id = 3) const uint BEHIND = 0; // 1: the token behind the row's

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t table;     // [vocabulary, columns] in FORMAT, rows in planes
    uint64_t y;         // [columns] f32
    uint columns;
    uint y_stride;      // bytes from one row of the step to the next
} push;

void main() {
    if (!row_is_live(push.state)) return;
    uint chunk = flat_workgroup() * workgroup_size() + thread_index();
    if (chunk >= push.columns / 32) return;
    uint64_t y = of_row(push.y, push.y_stride);
    uint token = BEHIND == 1 ? token_behind(push.state) : row_token(push.state);
    uint64_t row = push.table + uint64_t(token) * uint64_t(row_bytes(FORMAT, push.columns));
    if (is_float(FORMAT)) {
        for (uint j = 0; j < 8; j++) store_vec4(y, chunk * 128 + j * 16, load_floats(FORMAT, row, chunk * 8 + j));
        return;
    }
    Chunk w = unpack(FORMAT, load_raw(FORMAT, row, push.columns, chunk), chunk);
    uvec2 runs = chunk_runs(FORMAT, chunk);
    for (uint j = 0; j < 4; j++) {
        store_vec4(y, runs.x * 64 + j * 16, dequantised(FORMAT, w.a[j], w.a_scale));
        store_vec4(y, runs.y * 64 + j * 16, dequantised(FORMAT, w.b[j], w.b_scale));
    }
}
