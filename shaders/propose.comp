// Hands the drafts of a draft model over: they become rows of the step of the model that they are for, as many as there are and as it has room for.
//
// The draft model has a state of its own and wrote what it sampled into the array of tokens that both share. One subgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/drafts.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;     // StepState of the sequence that the drafts are for
    uint64_t draft;     // StepState whose own lane the draft model has moved on from the same position
    uint drafts;        // at most so many, less than MOST_RUN
} push;

void main() {
    if (load_u32(push.state, 0) == 0) return;
    uint number = listed_lane(push.state, 0);
    Lane lane = lane_of(push.state, number);
    uint from = lane.position, to = lane_of(push.draft, 0).position;
    set_drafts(push.state, lane, number, min(most_drafts(lane, push.drafts), max(from, to) - from));
}
