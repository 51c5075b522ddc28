// The first half of the sampler chain: adjusts the logits and lists the candidates, one workgroup a share of the vocabulary.
//
// Biases are added, of the sequence and then of the step; tokens in the window of the penalties are made less likely (Keskar et al., CTRL, 2019;
// OpenAI's frequency and presence penalties), and those that would extend a repetition (`dry`); tokens that the step's mask forbids are no
// candidates. A list is cut to little more than the k highest where top-k is on.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/integers.glsl"
#include "include/random.glsl"
#include "include/order.glsl"
#include "include/sampler.glsl"
#include "include/shares.glsl"
#define SCORED
#include "include/listing.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t logits;        // [vocabulary] f32
    uint64_t dry_lengths;   // [vocabulary] u32: what `dry` left, 0 afterwards
    uint64_t step_inputs;   // [lanes] StepInput of this ring slot, host-visible, for lanes with GATE_GUIDE
    uint64_t items;         // the candidates, by shares
    uint64_t shares;        // [shares] Share
    uint64_t moments;       // [shares] Moments, written for top-n-sigma
    uint vocabulary;
    uint logits_stride;     // bytes from one row of the step to the next, as the strides below
    uint dry_lengths_stride;
    uint step_input_stride; // bytes from one lane's to the next one's
    uint items_stride;
    uint shares_stride;
    uint moments_stride;
} push;

// Adds those of `count` biases that are of this share.
void add_biases(uint64_t biases, uint count, uint first) {
    barrier(); // the values before are there
    for (uint i = thread_index(); i < count; i += workgroup_size()) {
        Bias entry = Bias(biases + uint64_t(i * BIAS_BYTES));
        uint index = entry.id - first;
        if (index >= SHARE_IDS) continue;
        float value = values[index / 4][index % 4];
        if (is_broken(value)) continue;
        precise float sum = value + entry.bias;
        values[index / 4][index % 4] = flushed(sum);
    }
}

// Occurrences of four neighbouring ids in the window of the penalties: counted up to the first row of the lane, and what drafts change.
uvec4 occurrences(uint id, uint64_t tokens, SamplerParams params) {
    uint window = params.penalty_window;
    uvec4 counts = load_quad(params.counts, id, push.vocabulary);
    uint last = row_position(push.state), first = last - row_offset(push.state);
    for (uint end = first + 1; end <= last; end++) {
        uint entering = load_u32(tokens, end * 4) - id;
        if (entering < 4) counts[entering]++;
        if (end < window) continue;
        uint leaving = load_u32(tokens, (end - window) * 4) - id;
        if (leaving < 4) counts[leaving]--;
    }
    return counts;
}

float penalised(float value, uint count, SamplerParams params) {
    if (count == 0 || is_broken(value)) return value;
    precise float scaled = value * (value > 0.0 ? params.inverse_repeat : params.repeat);
    precise float penalty = float(count) * params.frequency;
    penalty = penalty + params.presence;
    precise float result = flushed(scaled) - penalty;
    return flushed(result);
}

float less_repetitive(float value, uint length, SamplerParams params) {
    if (length == 0 || is_broken(value)) return value;
    precise float result = value - load_f32(params.dry_penalties, (length - 1 - params.dry_allowed_length) * 4);
    return flushed(result);
}

vec4 quad_scores(uint id, vec4 logits) {
    Lane lane = own_lane(push.state);
    float inverse_temperature = lane.inverse_temperature;
    uvec4 random = uvec4(0);
    if (inverse_temperature != 0.0) {
        random = philox(uvec4(id / 4, row_position(push.state), 0, 0), uvec2(lane.seed_low, lane.seed_high));
    }
    vec4 scores;
    for (uint j = 0; j < 4; j++) scores[j] = draw_score(logits[j], inverse_temperature, random[j]);
    return scores;
}

// What top-n-sigma needs: sums over logits in units of 2^-10.
void sum_up(uint64_t moments) {
    int64_t sum = 0;
    uint64_t squares = 0;
    for (uint quad = lane_index(); quad < QUADS; quad += workgroup_size()) {
        for (uint j = 0; j < 4; j++) {
            if (!is_candidate(values[quad][j])) continue;
            int64_t x = int64_t(int(clamp(values[quad][j], -4096.0, 4096.0) * 1024.0));
            sum += x;
            squares += uint64_t(x * x);
        }
    }
    uvec4 sums = uvec4(in_parts(uint64_t(sum)), 0), square_sums = uvec4(in_parts(squares), 0), none = uvec4(0);
    uvec2 maxima = uvec2(0);
    workgroup_reduce(sums, square_sums, none, maxima, subgroups_per_workgroup());
    if (thread_index() != 0) return;
    Moments(moments).sum = of_parts(sums.xyz);
    Moments(moments).squares = of_parts(square_sums.xyz);
}

void main() {
    if (!row_is_live(push.state)) return;
    Lane lane = own_lane(push.state);
    SamplerParams params = SamplerParams(lane.samplers);
    uint64_t tokens = lane.tokens;
    uint share = gl_WorkGroupID.x, first = share * SHARE_IDS;
    load_values(of_row(push.logits, push.logits_stride), first, push.vocabulary);
    if (params.bias_count != 0) add_biases(params.biases, params.bias_count, first);
    bool masked = false;
    bool guided = lane.gate == GATE_GUIDE;
    uint64_t step_input = push.step_inputs + uint64_t(row_lane(push.state) * push.step_input_stride);
    if (guided) {
        StepInput host = StepInput(step_input);
        masked = host.has_mask != 0;
        // The count bounds what is read, whatever the host has written.
        add_biases(step_input + uint64_t(STEP_INPUT_BYTES), min(host.bias_count, MAX_STEP_BIASES), first);
    }
    barrier(); // the biases are added
    uint64_t lengths_base = of_row(push.dry_lengths, push.dry_lengths_stride);
    uint window = params.penalty_window;
    bool dry = params.dry_window != 0;
    for (uint quad = lane_index(); quad < QUADS; quad += workgroup_size()) {
        uint id = first + quad * 4;
        if (id >= push.vocabulary) break;
        vec4 value = values[quad];
        uvec4 counts = uvec4(0), lengths = uvec4(0);
        if (window != 0) counts = occurrences(id, tokens, params);
        if (dry) lengths = load_quad(lengths_base, id, push.vocabulary);
        uint allowed = 15u;
        if (masked) {
            uint words = STEP_INPUT_BYTES + MAX_STEP_BIASES * BIAS_BYTES;
            allowed = load_u32(step_input, words + id / 32 * 4) >> (id % 32);
        }
        for (uint j = 0; j < 4; j++) {
            value[j] = penalised(value[j], counts[j], params);
            value[j] = less_repetitive(value[j], lengths[j], params);
            if (lengths[j] != 0) store_u32(lengths_base, (id + j) * 4, 0);
            if (is_broken(value[j])) value[j] = BROKEN;
            else if ((allowed >> j & 1u) == 0u) value[j] = NO_VALUE;
        }
        values[quad] = value;
    }
    uint shares = share_count(push.vocabulary);
    uint64_t summaries = of_row(push.shares, push.shares_stride);
    list_share(share, shares, params.top_k, summaries, of_row(push.items, push.items_stride));
    if (params.sigma_squared != SIGMA_OFF) sum_up(of_row(push.moments, push.moments_stride) + uint64_t(share * MOMENTS_BYTES));
}
