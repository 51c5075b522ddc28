// The last kernel of a step: decides the next tokens, moves the sequence on, writes the rows of the next step and reports to the host. One workgroup.
//
// Rows behind which the prompt goes on decide nothing: the sequence moves on over them. Behind the first other row the best candidate that sampling
// left is the next token. Where it is what the next row, a draft, has, that row's candidates decide the token after it, and so on: at each
// position the very token comes out that would without drafts. End of generation, token budget, end of the context, a cancellation by the host and
// non-finite logits empty the table of rows: what is queued behind becomes no-ops. A step that finds the table empty changes nothing and reports so.
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
    uint64_t report;          // StepReport of this ring slot
    uint64_t tokens;          // [context + MOST_SAMPLING_ROWS] u32: the prompt, then what was sampled, then this step's drafts
    uint64_t end_tokens;      // [end_token_count] u32
    uint64_t cancelled;       // u32, host-visible: the sequence that the host wants stopped
    uint64_t candidates;      // [candidate_count] Candidate
    uint64_t params;          // SamplerParams, 0: the chain of samplers is not used
    uint64_t counts;          // [vocabulary] u32: occurrences in the window of the chain's penalties
    uint candidate_count;     // 0 in a step that only feeds the prompt
    uint rows;                // that the step's kernels have looked at, at most MOST_ROWS
    uint candidates_stride;   // bytes from one row's candidates to the next one's
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
    Lane lane = lane_of(push.state, 0);
    StepReport report = StepReport(push.report);
    uint taken = min(load_u32(push.state, 0), push.rows);
    // Where the sequence stands: kept by thread 0, which knows of the tokens sampled so far.
    uint position = lane.position, budget = lane.budget, token = lane.token, finish = lane.finish;
    uint status = STATUS_NO_OP, count = 0;
    float logit = 0.0;
    uint fed = position + 1 < lane.prompt_length ? min(taken, lane.prompt_length - 1 - position) : 0;
    bool cancelled = load_u32(push.cancelled, 0) == lane.sequence;
    if (fed > 0) {
        position += fed;
        token = load_u32(push.tokens, position * 4);
        status = STATUS_FED;
        finish = cancelled ? FINISH_CANCELLED : FINISH_NONE;
        // The rows of the next step behind its first one are the prompt's, too. If the sequence ends here, rows mean nothing.
        for (uint row = 1 + thread_index(); row < (cancelled ? 0 : next_rows(position, lane.prompt_length)); row += workgroup_size()) {
            write_row(push.state, row, load_u32(push.tokens, (position + row) * 4), position + row);
        }
        barrier(); // every thread has read the lane that thread 0 writes below
    }
    bool goes_on = true;
    for (uint i = 0; i < (fed > 0 ? 0 : taken); i++) {
        uint64_t candidates = push.candidates + uint64_t(i * push.candidates_stride);
        Candidate best = no_candidate();
        for (uint n = thread_index(); n < push.candidate_count; n += workgroup_size()) {
            best = better(best, load_candidate(candidates, n));
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
            if (load_u32(push.end_tokens, n * 4) == token) finish = FINISH_END_OF_GENERATION;
        }
        if (best.non_finite != 0 || best.id == NO_ID) {
            finish = FINISH_NON_FINITE;
            token = 0;
        }
        goes_on = finish == FINISH_NONE && i + 1 < taken && load_u32(push.tokens, position * 4) == token;
        store_u32(push.tokens, position * 4, token);
        move_window(position, token);
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
    if (taken == 0) return;
    lane.token = token;
    lane.position = position;
    lane.budget = budget;
    lane.finish = finish;
    bool ends = finish != FINISH_NONE;
    if (!ends) write_row(push.state, 0, token, position);
    store_u32(push.state, 0, ends ? 0 : next_rows(position, lane.prompt_length));
}
