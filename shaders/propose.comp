// Hands the drafts of a draft model over: a step of the model that they are for takes as many of them as there are and as it has room for.
//
// The draft model has a state of its own and wrote what it sampled into the array of tokens that both share. One thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/drafts.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;     // StepState of the sequence that the drafts are for
    uint64_t draft;     // StepState that the draft model has moved on from the same position
    uint drafts;        // at most so many, less than MAX_BATCH
} push;

void main() {
    StepState state = StepState(push.state);
    if (state.live == 0 || thread_index() != 0) return;
    uint from = state.position, to = StepState(push.draft).position;
    state.live = 1 + min(most_drafts(state, push.drafts), max(from, to) - from);
}
