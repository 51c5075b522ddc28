// The second half of the sampler chain: top-n-sigma, top-k, typical, top-p, min-p, XTC, and the draw. One workgroup.
//
// It chooses among the candidates that `adjust` listed. No stage sorts or moves them: each narrows the bounds of what is still in the running
// (select.glsl), by sums of integers. At least one candidate stays at every point. Where each stage's definition comes from is said in its
// reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/integers.glsl"
#include "include/random.glsl"
#include "include/mass.glsl"
#include "include/order.glsl"
#include "include/candidates.glsl"
#include "include/sampler.glsl"
#include "include/shares.glsl"
#include "include/select.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t logits;     // [vocabulary] f32, as the model gave them
    uint64_t items;      // the candidates, by shares
    uint64_t shares;     // [shares] Share
    uint64_t moments;    // [shares] Moments, read for top-n-sigma
    uint64_t candidates; // [1] Candidate
    uint vocabulary;
    uint logits_stride;  // bytes from one row of the step to the next, as the strides below
    uint items_stride;
    uint shares_stride;
    uint moments_stride;
    uint candidates_stride;
} push;

// The root of a number below 2^48, rounded down. The device's own root only has to be near.
uint root_of(uint64_t square) {
    uint root = uint(sqrt(float(square)));
    while (uint64_t(root) * uint64_t(root) > square) root--;
    while (uint64_t(root + 1) * uint64_t(root + 1) <= square) root++;
    return root;
}

// The lowest logit that top-n-sigma keeps, as a key, from the sums over all candidates.
uint lowest_within(uint sigma_squared, uint64_t count, uint64_t sum, uint64_t squares) {
    // The mean, rounded down: divided are numbers without a sign. All products are meant modulo 2^64.
    const uint64_t OFFSET = 1UL << 22;
    uint64_t mean = (sum + count * OFFSET) / count - OFFSET;
    uint64_t variance = (squares - 2UL * mean * sum + count * mean * mean) / count;
    uint64_t furthest = (variance >> 16) * uint64_t(sigma_squared) + (((variance & 0xffffUL) * uint64_t(sigma_squared)) >> 16);
    // No distance is longer than 2^23.
    uint distance = root_of(min(furthest, 1UL << 46));
    int bound = int(clamp(top, -4096.0, 4096.0) * 1024.0) - int(distance);
    if (bound <= -(1 << 22)) return 0;
    // The least float that is rounded towards zero to the bound, or the largest that is not.
    if (bound > 0) return order_key(float(bound) / 1024.0);
    return order_key(float(bound - 1) / 1024.0) + 1;
}

uint sigma_bound(uint sigma_squared, uint count) {
    uint64_t moments = of_row(push.moments, push.moments_stride);
    uint64_t sum = 0, squares = 0;
    for (uint share = lane_index(); share < share_total; share += workgroup_size()) {
        Moments own = Moments(moments + uint64_t(share * MOMENTS_BYTES));
        sum += own.sum;
        squares += own.squares;
    }
    uvec4 sums = uvec4(in_parts(sum), 0), square_sums = uvec4(in_parts(squares), 0), none = uvec4(0);
    uvec2 maxima = uvec2(0);
    workgroup_reduce(sums, square_sums, none, maxima, share_holders());
    // One subgroup divides: all of them would take turns.
    if (gl_SubgroupID == 0) {
        uint bound = lowest_within(sigma_squared, uint64_t(count), of_parts(sums.xyz), of_parts(square_sums.xyz));
        if (subgroupElect()) found_key = bound;
    }
    barrier();
    return found_key;
}

// The stages that look at all candidates that are left. The first three select, in the orders of the same numbers.
const uint XTC = 3;

// Whether a stage has anything to do. Where typical sampling was, the next one must find the highest that is left.
bool takes_part(uint stage, SamplerParams params, bool excludes) {
    if (stage == BY_COUNT) return params.top_k != 0;
    if (stage == BY_TYPICALITY) return params.typical != PROBABILITY_ONE;
    if (stage == BY_MASS) return params.top_p != PROBABILITY_ONE || least_typical != 0;
    return excludes;
}

// The lowest key that min-p keeps.
uint min_p_bound(uint highest_left, float log_min_p) {
    float highest_value = order_value(highest_left);
    precise float least = highest_value + log_min_p;
    return min(order_key(least), highest_left);
}

// Lowers the upper bound to the least probable of those whose weight is enough.
void exclude_top_choices(uint64_t enough) {
    // The lowest key, inverted, and the highest id that has it.
    uint lowest_key = 0, highest_id = 0;
    for (uint turn = 0; turn < 2; turn++) {
        uint own = 0;
        EACH_QUAD(list, first, entry) {
            uvec4 keys = quad_keys(list, entry, length);
            for (uint j = 0; j < AT_A_TIME; j++) {
                if (!survives(keys[j], list, entry + j) || entry_weight(keys[j]) < enough) continue;
                if (turn == 0) own = max(own, ~keys[j]);
                else if (~keys[j] == lowest_key) own = max(own, entry_id(list, entry + j));
            }
        }
        own = workgroup_max(own, list_total());
        if (turn == 0) lowest_key = own;
        else highest_id = own;
    }
    if (lowest_key != 0) highest = composite(~lowest_key, ~highest_id);
}

// Narrows the bounds to what the stages keep, from top-k to XTC. `highest_left` is the key of the highest candidate.
void truncate_candidates(SamplerParams params, uint highest_left, bool excludes) {
    // Where there are too many candidates to gather them, top-p first tries to gather the higher ones, which are enough if they have the mass.
    bool trying = false;
    uint64_t lowest_before = 0, target = 0;
    uint first = 0, last = 0; // bounds on what a stage orders by
    // One copy of the code serves all stages.
    for (uint stage = BY_COUNT; stage <= XTC;) {
        if (stage == XTC) {
            lowest = max(lowest, composite(min_p_bound(highest_left, params.log_min_p), 0));
            narrowed = true;
        }
        if (!takes_part(stage, params, excludes)) {
            stage++;
            continue;
        }
        gather_candidates();
        Survey survey = survey_candidates(min(stage, BY_MASS));
        if (!trying) {
            first = survey.highest;
            last = survey.lowest;
        }
        if (stage == XTC) {
            exclude_top_choices(part_rounded_up(survey.mass, params.xtc_threshold));
            break;
        }
        if (stage == BY_COUNT) {
            target = uint64_t(params.top_k);
            if (uint64_t(survey.count) <= target) {
                stage++;
                continue;
            }
        } else if (stage == BY_TYPICALITY) {
            target = part_of(survey.mass, params.typical) + 1UL;
            typical_mean = uint((survey.mean_high + (survey.mean_low >> 20)) / (survey.mass >> 20));
            uint furthest = fixed_below(survey.lowest);
            first = 0xffffffffu;
            last = ~max(typical_mean, furthest - min(furthest, typical_mean));
        } else if (trying) {
            if (gathered && survey.mass >= target) {
                last = survey.lowest;
            } else {
                gathered = false;
                lowest = lowest_before;
            }
        } else {
            highest_left = survey.highest;
            if (params.top_p == PROBABILITY_ONE) {
                stage++;
                continue;
            }
            target = max(part_rounded_up(survey.mass, params.top_p), 1UL);
            if (!gathered) {
                uint half_way = ranked_share(of_row(push.shares, push.shares_stride), (share_total + 1) / 2, true);
                lowest_before = lowest;
                lowest = max(lowest, composite(half_way, 0));
                narrowed = true;
                trying = true;
                continue;
            }
        }
        uint64_t bound = select_last(stage, target, first, last);
        if (stage == BY_TYPICALITY) least_typical = bound;
        else lowest = max(lowest, bound);
        narrowed = true;
        stage++;
    }
}

// The candidate with the highest score, the lower id of equal ones.
void draw(uint non_finite) {
    uint best_key = 0, best_id = NO_ID, best_list = 0, best_entry = 0;
    EACH_QUAD(list, first, entry) {
        uvec4 keys = quad_keys(list, entry, length);
        bvec4 kept = bvec4(false);
        for (uint j = 0; j < AT_A_TIME; j++) kept[j] = survives(keys[j], list, entry + j);
        if (!any(kept)) continue;
        vec4 scores = quad_scores(list, entry);
        for (uint j = 0; j < AT_A_TIME; j++) {
            if (!kept[j]) continue;
            uint key = order_key(scores[j]);
            // A thread walks through the lists by rising id, but not through what is gathered.
            if (key < best_key || (key == best_key && (!gathered || entry_id(list, entry + j) > best_id))) continue;
            best_key = key;
            if (gathered) best_id = entry_id(list, entry + j);
            best_list = list;
            best_entry = entry + j;
        }
    }
    if (best_key != 0) best_id = entry_id(best_list, best_entry);
    uint key = workgroup_max(best_key, list_total());
    uint id = ~workgroup_max(best_key == key ? ~best_id : 0, list_total());
    if (best_id != id || best_key != key) return;
    float logit = load_f32(of_row(push.logits, push.logits_stride), id * 4);
    store_candidate(of_row(push.candidates, push.candidates_stride), 0, Candidate(order_value(key), logit, id, non_finite));
}

void main() {
    if (!row_is_live(push.state)) return;
    SamplerParams params = SamplerParams(own_lane(push.state).samplers);
    share_total = share_count(push.vocabulary);
    lists = of_row(push.items, push.items_stride);
    uvec4 summary = load_summaries(of_row(push.shares, push.shares_stride));
    uint highest_key = summary.x, bound = summary.y, count = summary.z, non_finite = summary.w;
    if (count == 0) {
        Candidate none = no_candidate();
        none.non_finite = non_finite;
        if (thread_index() == 0) store_candidate(of_row(push.candidates, push.candidates_stride), 0, none);
        return;
    }
    top = order_value(highest_key);
    if (params.top_k != 0 && params.top_k <= share_total) {
        bound = max(bound, ranked_share(of_row(push.shares, push.shares_stride), params.top_k, false));
    }
    if (params.sigma_squared != SIGMA_OFF) bound = max(bound, sigma_bound(params.sigma_squared, count));
    lowest = composite(bound, 0);
    narrowed = bound != 0 || count <= GATHERED;

    Lane lane = own_lane(push.state);
    uint random = philox(uvec4(0, row_position(push.state), 1, 0), uvec2(lane.seed_low, lane.seed_high)).x;
    truncate_candidates(params, highest_key, (random >> 8) < params.xtc_probability);
    draw(non_finite);
}
