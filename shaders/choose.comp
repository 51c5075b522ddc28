// The second half of the sampler chain: top-n-sigma, top-k, typical, top-p, min-p, XTC, and the draw. One workgroup.
//
// It chooses among the candidates that `adjust` listed. No stage sorts or moves them: each narrows the bounds of what is still in the running
// (select.glsl), by sums of integers. At least one candidate stays at every point. Where each stage's definition comes from is said in its
// reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
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
    uint64_t params;     // SamplerParams
    uint64_t items;      // the candidates, by shares
    uint64_t shares;     // [shares] Share
    uint64_t moments;    // [shares] Moments, read for top-n-sigma
    uint64_t candidates; // [1] Candidate
    uint vocabulary;
    uint stride;         // bytes between the copies of what is read and written
} push;

// The lowest logit that top-n-sigma keeps, as a key.
uint sigma_bound(uint sigma_squared, uint64_t count) {
    uint64_t moments = own_copy(push.moments, push.stride);
    uint64_t sum = 0, squares = 0;
    for (uint share = thread_index(); share < share_total; share += workgroup_size()) {
        Moments own = Moments(moments + uint64_t(share * MOMENTS_BYTES));
        sum += own.sum;
        squares += own.squares;
    }
    sum = workgroup_sum(sum);
    squares = workgroup_sum(squares);
    // The mean, rounded down: divided are numbers without a sign. All products are meant modulo 2^64.
    const uint64_t OFFSET = 1UL << 22;
    uint64_t mean = (sum + count * OFFSET) / count - OFFSET;
    uint64_t variance = (squares - 2UL * mean * sum + count * mean * mean) / count;
    uint64_t furthest = (variance >> 16) * uint64_t(sigma_squared) + (((variance & 0xffffUL) * uint64_t(sigma_squared)) >> 16);
    // The root, rounded down: no distance is longer than 2^23.
    uint distance = 0;
    for (uint bit = 1u << 23; bit != 0; bit >>= 1) {
        uint64_t next = uint64_t(distance | bit);
        if (next * next <= furthest) distance |= bit;
    }
    int bound = int(clamp(top, -4096.0, 4096.0) * 1024.0) - int(distance);
    if (bound <= -(1 << 22)) return 0;
    // The least float that is rounded towards zero to the bound, or the largest that is not.
    if (bound > 0) return order_key(float(bound) / 1024.0);
    return order_key(float(bound - 1) / 1024.0) + 1;
}

// The weighted mean of the distances from `top`, in units of 2^-20.
uint mean_below(uint64_t mass) {
    // The products in two parts, so that each sum fits into 64 bits.
    uint64_t high = 0, low = 0;
    EACH_QUAD(list, first, entry) {
        uvec4 keys = quad_keys(list, entry, length);
        for (uint j = 0; j < 4; j++) {
            if (!survives(keys[j], list, entry + j)) continue;
            uint64_t weight = entry_weight(keys[j]), below = uint64_t(fixed_below(keys[j]));
            high += (weight >> 20) * below;
            low += (weight & 0xfffffUL) * below;
        }
    }
    high = workgroup_sum(high);
    low = workgroup_sum(low);
    return uint((high + (low >> 20)) / (mass >> 20));
}

// Narrows the bounds to what a selecting stage keeps.
void truncate_by(uint order, SamplerParams params) {
    uint amount = order == BY_COUNT ? params.top_k : order == BY_TYPICALITY ? params.typical : params.top_p;
    if (amount == (order == BY_COUNT ? 0 : PROBABILITY_ONE)) return;
    Survey survey = survey_candidates();
    uint64_t target = uint64_t(amount);
    uint first = survey.highest, last = survey.lowest;
    if (order == BY_COUNT) {
        if (survey.count <= amount) return;
    } else if (order == BY_TYPICALITY) {
        target = part_of(survey.mass, amount) + 1UL;
        typical_mean = mean_below(survey.mass);
        uint furthest = fixed_below(survey.lowest);
        first = 0xffffffffu;
        last = ~max(typical_mean, furthest - min(furthest, typical_mean));
    } else {
        target = max(part_rounded_up(survey.mass, amount), 1UL);
    }
    uint64_t bound = select_last(order, target, first, last);
    if (order == BY_TYPICALITY) least_typical = bound;
    else lowest = max(lowest, bound);
    narrowed = true;
}

// Lowers the upper bound to the least probable of those that reach the threshold.
void exclude_top_choices(uint threshold) {
    uint64_t enough = part_rounded_up(survey_candidates().mass, threshold);
    // The lowest key, inverted, and the highest id that has it.
    uint lowest_key = 0, highest_id = 0;
    for (uint turn = 0; turn < 2; turn++) {
        uint own = 0;
        EACH_QUAD(list, first, entry) {
            uvec4 keys = quad_keys(list, entry, length);
            for (uint j = 0; j < 4; j++) {
                if (!survives(keys[j], list, entry + j) || entry_weight(keys[j]) < enough) continue;
                if (turn == 0) own = max(own, ~keys[j]);
                else if (~keys[j] == lowest_key) own = max(own, entry_id(list, entry + j));
            }
        }
        own = workgroup_max(own);
        if (turn == 0) lowest_key = own;
        else highest_id = own;
    }
    if (lowest_key != 0) highest = composite(~lowest_key, ~highest_id);
}

// The candidate with the highest score, the lower id of equal ones.
void draw(uint non_finite) {
    uint best_key = 0, best_id = NO_ID;
    float best_score = 0.0;
    EACH_QUAD(list, first, entry) {
        uvec4 keys = quad_keys(list, entry, length);
        for (uint j = 0; j < 4; j++) {
            if (!survives(keys[j], list, entry + j)) continue;
            uint place = entry + j, share = list;
            if (gathered) {
                place = gathered_entries[list * 4 * SUBGROUP + entry + j];
                share = place / SHARE_IDS;
                place %= SHARE_IDS;
            }
            float score = load_f32(lists, item_offset(PART_SCORES, share_total, share, place));
            uint key = order_key(score);
            if (key < best_key) continue;
            uint id = entry_id(list, entry + j);
            if (key == best_key && id > best_id) continue;
            best_key = key;
            best_id = id;
            best_score = score;
        }
    }
    uint key = workgroup_max(best_key);
    uint id = ~workgroup_max(best_key == key ? ~best_id : 0);
    if (best_id != id || best_key != key) return;
    float logit = load_f32(own_copy(push.logits, push.stride), id * 4);
    store_candidate(own_copy(push.candidates, push.stride), 0, Candidate(best_score, logit, id, non_finite));
}

void main() {
    if (!step_is_live(push.state)) return;
    SamplerParams params = SamplerParams(push.params);
    share_total = share_count(push.vocabulary);
    lists = own_copy(push.items, push.stride);
    uvec4 summary = load_summaries(own_copy(push.shares, push.stride));
    uint highest_key = summary.x, bound = summary.y, count = summary.z, non_finite = summary.w;
    if (count == 0) {
        Candidate none = no_candidate();
        none.non_finite = non_finite;
        if (thread_index() == 0) store_candidate(own_copy(push.candidates, push.stride), 0, none);
        return;
    }
    top = order_value(highest_key);
    if (params.sigma_squared != SIGMA_OFF) bound = max(bound, sigma_bound(params.sigma_squared, uint64_t(count)));
    lowest = composite(bound, 0);

    // One copy of the code serves all three.
    for (uint order = BY_COUNT;; order++) {
        gather_candidates();
        if (order > BY_MASS) break;
        truncate_by(order, params);
    }

    uint highest_left = highest_key;
    if (least_typical != 0) highest_left = survey_candidates().highest;
    float highest_value = order_value(highest_left);
    precise float least_value = highest_value + params.log_min_p;
    lowest = max(lowest, composite(min(order_key(least_value), highest_left), 0));
    StepState state = StepState(push.state);
    uint random = philox(uvec4(0, step_position(push.state), 1, 0), uvec2(state.seed_low, state.seed_high)).x;
    if ((random >> 8) < params.xtc_probability) exclude_top_choices(params.xtc_threshold);
    draw(non_finite);
}
