// Hands drafts over that were made with a state of their own: they become rows of the step of the model that they are for, as many as there are and as it has
// room for.
//
// What a draft model or a block for multi-token prediction has sampled stands in the array of tokens of the sequence. Drafts of another sequence are none. One subgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/drafts.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;     // StepState of the sequence that the drafts are for
    uint64_t draft;     // StepState whose own lane has moved on over the drafts
    uint drafts;        // at most so many, less than MOST_RUN
    uint behind;        // positions by which that lane stands behind the last draft
} push;

void main() {
    if (load_u32(push.state, 0) == 0) return;
    uint number = listed_lane(push.state, 0);
    Lane lane = lane_of(push.state, number);
    Lane draft = lane_of(push.draft, 0);
    uint from = lane.position, to = draft.sequence == lane.sequence ? draft.position + push.behind : from;
    set_drafts(push.state, lane, number, min(most_drafts(lane, push.drafts), max(from, to) - from));
}
