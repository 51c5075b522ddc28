// Makes the last rows of the prompts that end in a step its only ones, so that the step goes on behind them as a step does that takes a token of each lane
// further: they become the first of the table and of the residual stream, in the order of their lanes, and each of these lanes moves on to its last token. Other
// lanes stay as they are: their rows are counted, and nothing is sampled behind them. One workgroup.
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

const uint NO_ROW = 0xffffffff;

// Of each lane of the list whose prompt ends in the step: the row of its last token, or NO_ROW; that token and its position.
shared uint last_rows[MOST_LANES];
shared uint tokens[MOST_LANES];
shared uint positions[MOST_LANES];

void main() {
    uint listed = load_u32(push.state, LANE_COUNT_OFFSET);
    for (uint place = thread_index(); place < listed; place += workgroup_size()) {
        Lane lane = lane_of(push.state, listed_lane(push.state, place));
        uint rows = lane.rows;
        bool ends = rows != 0 && lane.position + rows >= lane.prompt_length;
        last_rows[place] = ends ? lane.first_row + rows - 1 : NO_ROW;
        if (!ends) continue;
        Row row = Row(push.state + uint64_t(ROWS_OFFSET + last_rows[place] * ROW_BYTES));
        tokens[place] = row.token;
        positions[place] = row.position;
    }
    barrier();
    // The rows stand in the order of the lanes, so that none is overwritten before it is copied: number n of them is row n of the step or a later one.
    uint count = 0;
    for (uint place = 0; place < listed; place++) {
        uint last = last_rows[place];
        if (last == NO_ROW) continue;
        uint64_t from = push.x + uint64_t(last * push.x_stride), to = push.x + uint64_t(count * push.x_stride);
        for (uint i = thread_index(); last != count && i < push.width / 4; i += workgroup_size()) store_vec4(to, i * 16, load_vec4(from, i * 16));
        if (thread_index() == place % workgroup_size()) {
            uint number = listed_lane(push.state, place);
            Lane lane = lane_of(push.state, number);
            lane.token = tokens[place];
            lane.position = positions[place];
            lane.first_row = count;
            lane.rows = 1;
            write_row(push.state, count, 0, tokens[place], positions[place], number);
        }
        count++;
    }
    if (thread_index() == 0) store_u32(push.state, 0, count);
}
