// The last kernel of a step: decides the next tokens of each lane, moves its sequence on and reports to the host. One workgroup a lane.
//
// Rows behind which the prompt goes on decide nothing: the sequence moves on over them. Behind the first other row the best candidate that sampling
// left is the next token. Where it is what the next row, a draft, has, that row's candidates decide the token after it, and so on: at each
// position the very token comes out that would without drafts. End of generation, token budget, end of the context, a cancellation by the host and non-finite
// logits end the sequence: it has no rows in the steps that are queued behind. A lane without rows stays as it is, and the report says so.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/order.glsl"
#include "include/candidates.glsl"
#include "include/sampler.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t reports;         // [lanes] StepReport of this ring slot
    uint64_t cancelled;       // [lanes] u32, host-visible: for each lane the sequence that the host wants stopped
    uint64_t candidates;      // [candidate_count] Candidate
    uint64_t choices;         // [lanes] Candidate of this ring slot, host-visible: what the host chooses for lanes with GATE_TOKEN
    uint candidate_count;     // 0 in a step that only feeds the prompt
    uint report_stride;       // bytes from one lane's report to the next one's
    uint candidates_stride;   // bytes from one row's candidates to the next one's
    uint choice_stride;       // bytes from one lane's choice to the next one's
} push;

// The window of the penalties takes in the token at a position, and loses the one that it no longer reaches.
void move_window(Lane lane, uint position, uint token) {
    if (lane.samplers == 0UL) return;
    SamplerParams params = SamplerParams(lane.samplers);
    uint window = params.penalty_window;
    if (window == 0) return;
    atomicAdd(U32Ref(params.counts + uint64_t(token) * 4).v, 1u);
    if (position < window) return;
    uint leaving = load_u32(lane.tokens, (position - window) * 4);
    atomicAdd(U32Ref(params.counts + uint64_t(leaving) * 4).v, 0xffffffffu);
}

void main() {
    if (gl_WorkGroupID.z >= load_u32(push.state, LANE_COUNT_OFFSET)) return;
    uint number = listed_lane(push.state, gl_WorkGroupID.z);
    Lane lane = lane_of(push.state, number);
    StepReport report = StepReport(push.reports + uint64_t(number * push.report_stride));
    uint first_row = lane.first_row, taken = lane.rows;
    uint64_t tokens = lane.tokens, candidates = push.candidates + uint64_t(first_row * push.candidates_stride);
    uint candidate_count = push.candidate_count;
    if (lane.gate == GATE_TOKEN) {
        candidates = push.choices + uint64_t(number * push.choice_stride);
        candidate_count = 1;
    }
    // Where the sequence stands: kept by thread 0, which knows of the tokens sampled so far.
    uint position = lane.position, budget = lane.budget, token = lane.token, finish = lane.finish;
    uint status = STATUS_NO_OP, count = 0;
    float logit = 0.0;
    uint fed = position + 1 < lane.prompt_length ? min(taken, lane.prompt_length - 1 - position) : 0;
    bool cancelled = load_u32(push.cancelled, number * 4) == lane.sequence;
    if (fed > 0) {
        position += fed;
        token = load_u32(tokens, position * 4);
        status = STATUS_FED;
        finish = cancelled ? FINISH_CANCELLED : FINISH_NONE;
    }
    bool goes_on = true;
    for (uint i = 0; i < (fed > 0 ? 0 : taken); i++) {
        uint64_t own = candidates + uint64_t(i * push.candidates_stride);
        Candidate best = no_candidate();
        for (uint n = thread_index(); n < candidate_count; n += workgroup_size()) {
            best = better(best, load_candidate(own, n));
        }
        if (i > 0) barrier(); // what the search before left in shared memory has been read
        best = workgroup_best(best);
        if (thread_index() != 0 || !goes_on) continue;

        position++;
        logit = best.logit;
        finish = cancelled ? FINISH_CANCELLED : FINISH_NONE;
        token = best.id;
        status = STATUS_SAMPLED;
        budget--;
        if (position >= lane.context_length) finish = FINISH_CONTEXT_FULL;
        if (budget == 0) finish = FINISH_BUDGET;
        for (uint n = 0; n < lane.end_token_count; n++) {
            if (load_u32(lane.end_tokens, n * 4) == token) finish = FINISH_END_OF_GENERATION;
        }
        if (best.non_finite != 0 || best.id == NO_ID) {
            finish = FINISH_NON_FINITE;
            token = 0;
        }
        goes_on = finish == FINISH_NONE && i + 1 < taken && load_u32(tokens, position * 4) == token;
        store_u32(tokens, position * 4, token);
        move_window(lane, position, token);
        report.tokens[count++] = token;
    }
    if (thread_index() != 0) return;

    report.sequence = lane.sequence;
    report.status = status;
    report.position = position;
    report.finish = finish;
    report.logit = logit;
    report.fed = fed;
    report.count = count;
    report.drafts = fed > 0 ? 0 : max(taken, 1) - 1;
    if (taken == 0) return;
    lane.token = token;
    lane.position = position;
    lane.budget = budget;
    lane.finish = finish;
}
