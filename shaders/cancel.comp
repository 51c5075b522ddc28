// Ends a step between two of its submissions, if the host has cancelled the sequence: it empties the table of rows, so that the rest of the step and
// all steps queued behind it become no-ops. Otherwise, and where the table is empty already, it changes nothing. One subgroup, of which one thread works.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t cancelled; // u32, host-visible: the sequence that the host wants stopped
} push;

void main() {
    if (thread_index() != 0 || load_u32(push.state, 0) == 0) return;
    Lane lane = lane_of(push.state, 0);
    if (load_u32(push.cancelled, 0) != lane.sequence) return;
    lane.finish = FINISH_CANCELLED;
    store_u32(push.state, 0, 0);
}
