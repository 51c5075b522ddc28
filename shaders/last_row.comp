// Makes the last row of a step of one lane its only one, so that the step goes on behind that row as a step of one row does: the row becomes the first of the table
// and of the residual stream, and the lane moves on to its token. A step of one row or of none is left as it is. One workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;         // [width] f32: the residual stream
    uint width;
    uint x_stride;      // bytes from one row of the step to the next
} push;

void main() {
    uint count = load_u32(push.state, 0);
    if (count <= 1) return;
    uint last = count - 1;
    uint64_t from = push.x + uint64_t(last * push.x_stride);
    for (uint i = thread_index(); i < push.width / 4; i += workgroup_size()) {
        store_vec4(push.x, i * 16, load_vec4(from, i * 16));
    }
    barrier(); // every thread has read the number of rows that thread 0 writes below
    if (thread_index() != 0) return;
    Row row = Row(push.state + uint64_t(ROWS_OFFSET + last * ROW_BYTES));
    Lane lane = lane_of(push.state, row.lane);
    lane.token = row.token;
    lane.position = row.position;
    lane.rows = 1;
    write_row(push.state, 0, 0, row.token, row.position, row.lane);
    store_u32(push.state, 0, 1);
}
