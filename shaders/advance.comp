// The last kernel of a step: decides the next tokens, moves the sequence on and reports to the host. One workgroup.
//
// The next token is the prompt's where the prompt goes on, else the best candidate that sampling left. Where it is what the batch's next
// token, a draft, was taken to be, that one's candidates decide the token after it, and so on: at each position the very token comes out that
// would without drafts. End of generation, token budget, end of the context, a cancellation by the host and non-finite logits clear the live
// flag: what is queued behind becomes no-ops. A step that finds the flag cleared changes nothing and reports so.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/order.glsl"
#include "include/candidates.glsl"
#include "include/sampler.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t report;          // StepReport of this ring slot
    uint64_t tokens;          // [context + MAX_BATCH] u32: the prompt, then what was sampled, then this step's drafts
    uint64_t end_tokens;      // [end_token_count] u32
    uint64_t cancelled;       // u32, host-visible: the sequence that the host wants stopped
    uint64_t candidates;      // [candidate_count] Candidate
    uint64_t params;          // SamplerParams, 0: the chain of samplers is not used
    uint64_t counts;          // [vocabulary] u32: occurrences in the window of the chain's penalties
    uint candidate_count;     // 0 in a step that only feeds the prompt
    uint batch;               // tokens that the step's kernels have looked at, at most MAX_BATCH
    uint stride;              // bytes from one token's candidates to the next one's
} push;

// The window of the penalties takes in the token at a position, and loses the one that it no longer reaches.
void move_window(uint position, uint token) {
    uint window = push.params != 0 ? SamplerParams(push.params).penalty_window : 0;
    if (window == 0) return;
    atomicAdd(U32Ref(push.counts + uint64_t(token) * 4).v, 1u);
    if (position < window) return;
    uint leaving = load_u32(push.tokens, (position - window) * 4);
    atomicAdd(U32Ref(push.counts + uint64_t(leaving) * 4).v, 0xffffffffu);
}

void main() {
    StepState state = StepState(push.state);
    StepReport report = StepReport(push.report);
    uint taken = min(state.live, push.batch);
    // Where the sequence stands after the tokens reported so far: kept by thread 0.
    uint position = state.position, budget = state.budget, token = state.token, finish = state.finish;
    uint status = STATUS_NO_OP, count = 0;
    float logit = 0.0;
    bool goes_on = true;
    for (uint i = 0; i < taken; i++) {
        uint64_t candidates = push.candidates + uint64_t(i * push.stride);
        Candidate best = no_candidate();
        for (uint n = thread_index(); n < push.candidate_count; n += workgroup_size()) {
            best = better(best, load_candidate(candidates, n));
        }
        if (i > 0) barrier(); // what the search before left in shared memory has been read
        best = workgroup_best(best);
        if (thread_index() != 0 || !goes_on) continue;

        position++;
        logit = best.logit;
        finish = load_u32(push.cancelled, 0) == state.sequence ? FINISH_CANCELLED : FINISH_NONE;
        if (position < state.prompt_length) {
            token = load_u32(push.tokens, position * 4);
            status = STATUS_FED;
            goes_on = false;
        } else {
            token = best.id;
            status = STATUS_SAMPLED;
            budget--;
            if (position >= state.context_length) finish = FINISH_CONTEXT_FULL;
            if (budget == 0) finish = FINISH_BUDGET;
            for (uint n = 0; n < state.end_token_count; n++) {
                if (load_u32(push.end_tokens, n * 4) == token) finish = FINISH_END_OF_GENERATION;
            }
            if (best.non_finite != 0 || best.id == NO_ID) {
                finish = FINISH_NON_FINITE;
                token = 0;
            }
            goes_on = finish == FINISH_NONE && i + 1 < taken && load_u32(push.tokens, position * 4) == token;
            store_u32(push.tokens, position * 4, token);
            move_window(position, token);
        }
        report.tokens[count++] = token;
    }
    if (thread_index() != 0) return;

    report.sequence = state.sequence;
    report.status = status;
    report.position = position;
    report.finish = finish;
    report.logit = logit;
    report.count = count;
    if (taken == 0) return;
    state.token = token;
    state.position = position;
    state.budget = budget;
    state.finish = finish;
    state.live = finish == FINISH_NONE ? 1 : 0;
}
