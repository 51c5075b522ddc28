// DRY: of each token of the window, how long the repetition is that it would extend at the end of the history.
//
// One workgroup. A thread takes places of the window in turn, counts how many tokens before the place are those at the end of the history, and
// raises the length of the token at the place. What it reads are tokens only, so that it runs beside the model. (DRY, by p-e-w:
// oobabooga/text-generation-webui, pull request 5677, 2024; sequence breakers and limits as in llama.cpp.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/integers.glsl"
#include "include/sampler.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t dry_lengths;    // [vocabulary] u32, zeros: raised to one more than the length of a repetition that costs something
    uint dry_lengths_stride; // bytes from one row of the step to the next
} push;

uint64_t tokens, breakers, tails; // of the row's lane

// The token that is so far from the end of the history.
uint token_before(uint last, uint distance) { return load_u32(tokens, (last - distance) * 4); }

uint breaker_flags(uint token) { return load_u32(breakers, token & ~3u) >> (token % 4 * 8); }

// Where a token is a sequence breaker, one more than the number of tokens behind it that belong to it; else 0.
uint breaker_at(uint last, uint distance, uint tail_count) {
    uint token = token_before(last, distance), flags = breaker_flags(token);
    uint longest = (flags & BREAKS_ALONE) != 0 ? 1 : 0;
    if ((flags & BEGINS_BREAKER) == 0) return longest;
    for (uint entry = 0; entry < tail_count; entry++) {
        uint base = entry * TAIL_WORDS * 4;
        uint tail = load_u32(tails, base + 4);
        if (load_u32(tails, base) != token || tail > distance || tail < longest) continue;
        uint same = 0;
        while (same < tail && load_u32(tails, base + 8 + same * 4) == token_before(last, distance - 1 - same)) same++;
        if (same == tail) longest = tail + 1;
    }
    return longest;
}

void main() {
    if (!row_is_live(push.state)) return;
    Lane lane = own_lane(push.state);
    SamplerParams params = SamplerParams(lane.samplers);
    tokens = lane.tokens;
    breakers = params.breakers;
    tails = params.tails;
    uint last = row_position(push.state);
    uint window = min(last + 1, params.dry_window);
    uint allowed = params.dry_allowed_length;
    if (window <= allowed) return;

    // The breaker that begins last: the distance of what follows it, as a key that is higher the later it begins.
    uint breaker = 0;
    for (uint distance = thread_index(); distance < window && breaker == 0; distance += workgroup_size()) {
        uint length = breaker_at(last, distance, params.tail_count);
        if (length != 0) breaker = (0x7ffffffu - distance) << 5 | length;
    }
    breaker = workgroup_max(breaker, subgroups_per_workgroup());
    uint limit = min(window, allowed + params.dry_penalty_count - 1);
    if (breaker != 0) limit = min(limit, 0x7ffffffu - (breaker >> 5) - ((breaker & 31) - 1));
    if (limit < allowed) return;

    uint64_t lengths = of_row(push.dry_lengths, push.dry_lengths_stride);
    // Places by their distance from the end: a repetition that ends before the place has `distance` tokens between it and the end.
    for (uint distance = thread_index(); distance + 1 < window; distance += workgroup_size()) {
        uint longest = min(limit, window - distance - 1);
        uint length = 0;
        while (length < longest && token_before(last, length) == token_before(last, distance + 1 + length)) length++;
        if (length < allowed) continue;
        uint token = token_before(last, distance);
        if ((breaker_flags(token) & BREAKS_ALONE) == 0) atomicMax(U32Ref(lengths + uint64_t(token) * 4).v, length + 1);
    }
}
