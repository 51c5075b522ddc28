// Begins the drafts of a block for multi-token prediction, behind a step of one lane that has ended: the last of its rows that was accepted becomes the first row
// of the drafting state. One workgroup.
//
// The block takes a row with the token behind it, so the drafting lane stands a position behind the sequence, and its array of tokens begins with the second
// token of the sequence. It drafts greedily, up to the end of the context.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;     // StepState of the step that has ended
    uint64_t draft;     // StepState whose own lane drafts
    uint64_t tokens;    // [context + MOST_RUN] u32: where drafts go instead of to the tokens of the sequence, at the same positions; 0: to these
    uint64_t x;         // [width] f32, of the rows of the step
    uint64_t y;         // [width] f32, of the drafting state's row
    uint width;
    uint x_stride;      // bytes from one row of the step to the next
} push;

void main() {
    uint number = listed_lane(push.state, 0);
    Lane lane = lane_of(push.state, number);
    if (load_u32(push.state, 0) == 0 || lane.rows == 0) return;
    uint position = lane.position - 1, row = lane.first_row;
    row += position - Row(push.state + uint64_t(ROWS_OFFSET + row * ROW_BYTES)).position;
    uint64_t x = push.x + uint64_t(row * push.x_stride);
    for (uint i = thread_index(); i < push.width / 4; i += workgroup_size()) store_vec4(push.y, i * 16, load_vec4(x, i * 16));
    if (thread_index() != 0) return;
    Lane own = lane_of(push.draft, 0);
    own.token = lane.token;
    own.position = position;
    own.prompt_length = 0;
    own.budget = 0xffffffff;
    own.context_length = lane.context_length - 1;
    own.end_token_count = 0;
    own.finish = FINISH_NONE;
    own.inverse_temperature = 0.0;
    own.sequence = lane.sequence;
    own.gate = GATE_OPEN;
    own.tokens = (push.tokens == 0UL ? lane.tokens : push.tokens) + 4UL;
    own.samplers = 0UL;
}
