// Ends a step of one lane between two of its submissions, if the host has cancelled the sequence: it empties the table of rows, so that the rest of the step
// becomes a no-op, as the steps queued behind it do. Otherwise, and where the table is empty already, it changes nothing. One subgroup, of which one thread
// works.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t cancelled; // [lanes] u32, host-visible: for each lane the sequence that the host wants stopped
} push;

void main() {
    if (thread_index() != 0 || load_u32(push.state, 0) == 0) return;
    uint number = listed_lane(push.state, 0);
    Lane lane = lane_of(push.state, number);
    if (load_u32(push.cancelled, number * 4) != lane.sequence) return;
    lane.finish = FINISH_CANCELLED;
    lane.rows = 0;
    store_u32(push.state, 0, 0);
}
