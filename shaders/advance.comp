// The last kernel of a step: decides the next token, moves the sequence on and reports to the host. One workgroup.
//
// The next token is the prompt's where the prompt goes on, else the best candidate that `sample` left. End of generation, token
// budget, end of the context, a cancellation by the host and non-finite logits clear the live flag: what is queued behind becomes
// no-ops. A step that finds the flag cleared changes nothing and reports so.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/order.glsl"
#include "include/candidates.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t report;          // StepReport of this ring slot
    uint64_t prompt;          // [context] u32
    uint64_t end_tokens;      // [end_token_count] u32
    uint64_t cancelled;       // u32, host-visible: the sequence that the host wants stopped
    uint64_t candidates;      // [candidate_count] Candidate
    uint candidate_count;     // 0 in a step that only feeds the prompt
} push;

void main() {
    StepState state = StepState(push.state);
    StepReport report = StepReport(push.report);
    bool live = state.live != 0;
    Candidate best = no_candidate();
    if (live) {
        for (uint i = thread_index(); i < push.candidate_count; i += workgroup_size()) {
            best = better(best, load_candidate(push.candidates, i));
        }
    }
    best = workgroup_best(best);
    if (thread_index() != 0) return;

    report.sequence = state.sequence;
    report.logit = best.logit;
    if (!live) {
        report.status = STATUS_NO_OP;
        report.token = state.token;
        report.position = state.position;
        report.finish = state.finish;
        return;
    }
    uint next = state.position + 1;
    uint finish = FINISH_NONE;
    uint token;
    uint status;
    if (next < state.prompt_length) {
        token = load_u32(push.prompt, next * 4);
        status = STATUS_FED;
    } else {
        token = best.id;
        status = STATUS_SAMPLED;
        state.budget = state.budget - 1;
        if (next >= state.context_length) finish = FINISH_CONTEXT_FULL;
        if (state.budget == 0) finish = FINISH_BUDGET;
        for (uint i = 0; i < state.end_token_count; i++) {
            if (load_u32(push.end_tokens, i * 4) == token) finish = FINISH_END_OF_GENERATION;
        }
        if (best.non_finite != 0 || best.id == NO_ID) {
            finish = FINISH_NON_FINITE;
            token = 0;
        }
    }
    if (finish == FINISH_NONE && load_u32(push.cancelled, 0) == state.sequence) finish = FINISH_CANCELLED;
    state.token = token;
    state.position = next;
    state.finish = finish;
    state.live = finish == FINISH_NONE ? 1 : 0;
    report.status = status;
    report.token = token;
    report.position = next;
    report.finish = finish;
}
