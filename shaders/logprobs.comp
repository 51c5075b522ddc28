// The second half of log-probabilities: the highest logits of the whole vocabulary, in order, and its softmax mass. One workgroup, beside `choose`.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/integers.glsl"
#include "include/random.glsl"
#include "include/mass.glsl"
#include "include/order.glsl"
#include "include/shares.glsl"
#include "include/select.glsl"
#include "include/logprob_report.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t items;  // what `logprob_shares` listed
    uint64_t shares; // [shares] Share
    uint64_t masses; // [shares] u64
    uint64_t reports; // [lanes] LogprobReport of this ring slot
    uint vocabulary;
    uint items_stride; // bytes from one row of the step to the next, as the strides below
    uint shares_stride;
    uint masses_stride;
    uint report_stride; // bytes from one lane's report to the next one's
} push;

shared uint64_t top_places[TOP_LOGPROBS]; // order key and inverted id of what is reported
shared uint top_count;

// The mass of all shares, relative to `top`.
uint64_t total_mass(uint64_t shares) {
    uint64_t masses = of_row(push.masses, push.masses_stride), mass = 0;
    for (uint share = lane_index(); share < share_total; share += workgroup_size()) {
        uint highest = Share(shares + uint64_t(share * SHARE_BYTES)).highest;
        if (highest == 0) continue;
        uvec2 words = load_uvec2(masses, share * 8);
        mass += weighted_mass(composite(words.y, words.x), entry_weight(highest));
    }
    uvec4 parts = uvec4(in_parts(mass), 0);
    uvec2 maxima = uvec2(0);
    workgroup_reduce(parts, maxima, share_holders());
    return of_parts(parts.xyz);
}

void main() {
    if (!row_is_live(push.state)) return;
    LogprobReport report = LogprobReport(push.reports + uint64_t(row_lane(push.state) * push.report_stride));
    share_total = share_count(push.vocabulary);
    lists = of_row(push.items, push.items_stride);
    uint64_t shares = of_row(push.shares, push.shares_stride);
    uvec2 keys = load_summaries(shares).xy;
    top = order_value(keys.x);
    if (TOP_LOGPROBS <= share_total) keys.y = max(keys.y, ranked_share(shares, TOP_LOGPROBS, false));
    lowest = composite(keys.y, 0);
    uint64_t mass = 0;
    if (keys.x != 0) {
        mass = total_mass(shares);
        gather_candidates();
        Survey survey = survey_candidates(BY_COUNT);
        if (survey.count > TOP_LOGPROBS) {
            lowest = max(lowest, select_last(BY_COUNT, uint64_t(TOP_LOGPROBS), survey.highest, survey.lowest));
        }
    }
    if (thread_index() == 0) top_count = 0;
    barrier();
    EACH_QUAD(list, first, entry) {
        uvec4 quad = quad_keys(list, entry, length);
        for (uint j = 0; j < AT_A_TIME; j++) {
            if (!survives(quad[j], list, entry + j)) continue;
            top_places[atomicAdd(top_count, 1u)] = composite(quad[j], ~entry_id(list, entry + j));
        }
    }
    barrier();
    for (uint i = thread_index(); i < top_count; i += workgroup_size()) {
        uint rank = 0;
        for (uint other = 0; other < top_count; other++) rank += top_places[other] > top_places[i] ? 1u : 0u;
        report.ids[rank] = ~uint(top_places[i]);
        report.logits[rank] = order_value(uint(top_places[i] >> 32));
    }
    if (thread_index() != 0) return;
    report.mass = mass;
    report.highest = keys.x != 0 ? top : 0.0;
    report.count = top_count;
}
