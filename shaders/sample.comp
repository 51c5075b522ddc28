// First half of sampling: each workgroup finds the best of its share of the vocabulary, the lower id where two are equal, for each row of the
// step.
// Greedy compares logits. Otherwise a Gumbel variate is added to logit / temperature: the maximum of these is distributed as the
// softmax (Gumbel, 1954; Maddison et al., A* Sampling, 2014). The variate depends on seed, position and id alone.
// The score's arithmetic is exact, so that the host draws the same token from the same logits.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/random.glsl"
#include "include/order.glsl"
#include "include/candidates.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t logits;     // [vocabulary] f32
    uint64_t candidates; // [workgroups] Candidate
    uint vocabulary;
    uint share;          // ids a workgroup looks at, a multiple of 4
    uint logits_stride;  // bytes from one row of the step to the next, as candidates_stride
    uint candidates_stride;
} push;

void main() {
    if (!row_is_live(push.state)) return;
    Lane lane = own_lane(push.state);
    float inverse_temperature = lane.inverse_temperature;
    uvec2 key = uvec2(lane.seed_low, lane.seed_high);
    uint position = row_position(push.state);
    uint64_t logits = of_row(push.logits, push.logits_stride);
    uint first = flat_workgroup() * push.share;
    uint end = min(first + push.share, push.vocabulary);
    Candidate best = no_candidate();
    for (uint group = first + thread_index() * 4; group < end; group += workgroup_size() * 4) {
        uvec4 random = uvec4(0);
        if (inverse_temperature != 0.0) random = philox(uvec4(group / 4, position, 0, 0), key);
        for (uint j = 0; j < 4 && group + j < end; j++) {
            float logit = load_f32(logits, (group + j) * 4);
            if (is_broken(logit)) {
                best.non_finite++;
                continue;
            }
            float score = draw_score(logit, inverse_temperature, random[j]);
            if (best.id == NO_ID || order_key(score) > order_key(best.score)) {
                best.score = score;
                best.id = group + j;
                best.logit = logit;
            }
        }
    }
    best = workgroup_best(best);
    if (thread_index() == 0) store_candidate(of_row(push.candidates, push.candidates_stride), flat_workgroup(), best);
}
