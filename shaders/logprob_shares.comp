// The first half of log-probabilities: the highest logits and the softmax mass of each share of the vocabulary, one workgroup a share.
// It reads the logits as the model gave them, and runs beside `adjust`.
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
#include "include/listing.glsl"
#include "include/logprob_report.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t logits; // [vocabulary] f32
    uint64_t items;  // the highest of each share; scores are not written
    uint64_t shares; // [shares] Share
    uint64_t masses; // [shares] u64: softmax masses, each relative to the share's highest logit
    uint vocabulary;
    uint logits_stride; // bytes from one row of the step to the next, as the strides below
    uint items_stride;
    uint shares_stride;
    uint masses_stride;
} push;

void main() {
    if (!row_is_live(push.state)) return;
    uint share = gl_WorkGroupID.x;
    load_values(of_row(push.logits, push.logits_stride), share * SHARE_IDS, push.vocabulary);
    uint64_t summaries = of_row(push.shares, push.shares_stride), items = of_row(push.items, push.items_stride);
    float highest = order_value(list_share(share, share_count(push.vocabulary), TOP_LOGPROBS, summaries, items));
    uint64_t mass = 0;
    for (uint quad = lane_index(); quad < QUADS; quad += workgroup_size()) {
        for (uint j = 0; j < 4; j++) {
            if (!is_candidate(values[quad][j])) continue;
            precise float below = values[quad][j] - highest;
            mass += softmax_weight(below);
        }
    }
    uvec4 parts = uvec4(in_parts(mass), 0);
    uvec2 maxima = uvec2(0);
    workgroup_reduce(parts, maxima, subgroups_per_workgroup());
    mass = of_parts(parts.xyz);
    uvec2 words = uvec2(uint(mass), uint(mass >> 32));
    if (thread_index() == 0) store_uvec2(of_row(push.masses, push.masses_stride), share * 8, words);
}
