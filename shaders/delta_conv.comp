// The short convolution of a gated delta net: of each channel of queries, keys and values the weighted sum of its last TAPS positions, through silu.
// A thread takes four neighbouring channels of ROWS rows of the step.
//
// Earlier positions than those of the step come from the lane's recurrent state. The thread of the lane's first row does all rows that need them, and
// then puts the step's last positions there, so that it alone touches its channels of that state.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/silu.glsl"

layout(constant_id = 2) const uint KEY_HEADS = 1;
layout(constant_id = 3) const uint VALUE_HEADS = 1;
layout(constant_id = 4) const uint HEAD_SIZE = 32;
layout(constant_id = 5) const uint DRAFTS = 0; // at most, of a lane in a step
layout(constant_id = 6) const uint ROWS = 1;   // of a thread
#include "include/delta_state.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;            // [CHANNELS] f32
    uint64_t weights;      // [CHANNELS, TAPS] f32: the last is the present position's
    uint64_t recurrent;    // the recurrent state of lane 0
    uint64_t y;            // [CHANNELS] f32
    uint x_stride;         // bytes from one row of the step to the next, as y_stride
    uint y_stride;
    uint recurrent_stride; // bytes from one lane's recurrent state to the next one's
} push;

// The weights of the thread's four channels: those of position t - 3, t - 2, t - 1 and t.
struct Taps { vec4 of[TAPS]; };

vec4 load_x(uint row, uint channel) { return load_vec4(push.x + uint64_t(row * push.x_stride), channel * 4); }

void store_y(uint row, uint channel, Taps taps, vec4 x[TAPS]) {
    precise vec4 sum = taps.of[0] * x[0];
    precise vec4 term = taps.of[1] * x[1];
    sum = sum + term;
    term = taps.of[2] * x[2];
    sum = sum + term;
    term = taps.of[3] * x[3];
    sum = sum + term;
    store_vec4(push.y + uint64_t(row * push.y_stride), channel * 4, silu(sum));
}

// Where the channel of a position lies in a lane's recurrent state.
uint column_offset(uint position, uint channel) { return COLUMNS_OFFSET + (position % COLUMN_SLOTS * CHANNELS + channel) * 4; }

// The rows of a lane that need its recurrent state, of which `first` is the first; and what the lane keeps of the step.
void begin_lane(uint first, uint channel, Taps taps) {
    uint64_t entry = push.state + uint64_t(ROWS_OFFSET + first * ROW_BYTES);
    uint position = load_u32(entry, 8), number = load_u32(entry, 12), rows = lane_of(push.state, number).rows;
    uint64_t recurrent = recurrent_state(push.recurrent, push.recurrent_stride, number);
    vec4 x[TAPS];
    [[unroll]] for (uint n = 0; n < TAPS - 1; n++) {
        uint back = TAPS - 1 - n; // positions before the sequence count as 0
        x[n] = position < back ? vec4(0.0) : load_vec4(recurrent, column_offset(position - back, channel));
    }
    for (uint row = 0; row < min(rows, TAPS - 1); row++) {
        x[3] = load_x(first + row, channel);
        store_y(first + row, channel, taps, x);
        x[0] = x[1];
        x[1] = x[2];
        x[2] = x[3];
    }
    for (uint row = rows - min(rows, COLUMN_SLOTS); row < rows; row++) {
        store_vec4(recurrent, column_offset(position + row, channel), load_x(first + row, channel));
    }
}

void main() {
    uint first = gl_WorkGroupID.z * ROWS, listed = row_count(push.state);
    uint channel = (flat_workgroup() * workgroup_size() + thread_index()) * 4;
    if (first >= listed || channel >= CHANNELS) return;
    mat4 weights;
    [[unroll]] for (uint c = 0; c < 4; c++) weights[c] = load_vec4(push.weights, (channel + c) * TAPS * 4);
    weights = transpose(weights);
    Taps taps;
    [[unroll]] for (uint n = 0; n < TAPS; n++) taps.of[n] = weights[n];

    vec4 x[ROWS + TAPS - 1];
    [[unroll]] for (uint n = 0; n < ROWS + TAPS - 1; n++) {
        uint row = max(first + n, TAPS - 1) - (TAPS - 1);
        x[n] = load_x(min(row, listed - 1), channel);
    }
    for (uint n = 0; n < ROWS; n++) {
        uint row = min(first + n, listed - 1), offset = load_uniform_u32(push.state, ROWS_OFFSET + row * ROW_BYTES);
        if (first + n >= listed) continue;
        if (offset == 0) begin_lane(row, channel, taps);
        if (offset >= TAPS - 1) store_y(row, channel, taps, vec4[TAPS](x[n], x[n + 1], x[n + 2], x[n + 3]));
    }
}
