// Attention of one query token over the KV cache, split over the context: workgroup (split, head) reads every SPLITS-th tile of
// positions and leaves its share unnormalised, with its maximum and its sum, for `attention_merge`. The grid does not depend on the
// context length, so that one recording serves every token. A tile is one position a thread.
// (Online softmax: Milakov and Gimelshein, 2018; split over the context: Dao et al., Flash-Decoding, 2023.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"
#include "include/half.glsl"
#include "include/cache.glsl"

layout(constant_id = 2) const uint KEY_FORMAT = 0;
layout(constant_id = 3) const uint VALUE_FORMAT = 0;
const uint MAX_HEAD_SIZE = 512;
const uint MAX_TILE = 256;

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, head_size] f32
    uint64_t key_cache;   // [context, kv_heads * head_size] in KEY_FORMAT
    uint64_t value_cache; // [context, kv_heads * head_size] in VALUE_FORMAT
    uint64_t partials;    // [query_heads, splits, head_size + 2] f32: weighted values, maximum, sum
    uint query_heads;
    uint kv_heads;
    uint head_size;       // a multiple of 4
    uint splits;
    float scale;          // 1 / sqrt(head_size)
} push;

shared float query[MAX_HEAD_SIZE];
shared float weighted[MAX_HEAD_SIZE];
shared float weights[MAX_TILE];

// Four consecutive cache elements from `index`, a multiple of 4.
vec4 load_cache4(uint64_t row, uint format, uint index) {
    if (format == CACHE_F32) return load_vec4(row, index * 4);
    uvec2 w = load_uvec2(row, index * 2);
    return vec4(half_value(w.x & 0xffffu), half_value(w.x >> 16), half_value(w.y & 0xffffu), half_value(w.y >> 16));
}
float load_cache(uint64_t row, uint format, uint index) {
    return format == CACHE_F32 ? load_f32(row, index * 4) : half_value(load_u16(row, index * 2));
}

void main() {
    if (!step_is_live(push.state)) return;
    uint count = StepState(push.state).position + 1; // the token's own entry is already in the cache
    uint split = gl_WorkGroupID.x, head = gl_WorkGroupID.y, size = push.head_size;
    uint kv_first = head / (push.query_heads / push.kv_heads) * size;
    uint64_t key_stride = uint64_t(push.kv_heads * size * (KEY_FORMAT == CACHE_F16 ? 2 : 4));
    uint64_t value_stride = uint64_t(push.kv_heads * size * (VALUE_FORMAT == CACHE_F16 ? 2 : 4));

    for (uint i = thread_index(); i < size; i += workgroup_size()) {
        query[i] = load_f32(push.q, (head * size + i) * 4) * push.scale;
        weighted[i] = 0.0;
    }
    barrier();

    float highest = uintBitsToFloat(0xff800000u); // -infinity
    float sum = 0.0;
    for (uint tile = split * workgroup_size(); tile < count; tile += push.splits * workgroup_size()) {
        uint position = tile + thread_index();
        float score = uintBitsToFloat(0xff800000u);
        if (position < count) {
            uint64_t row = push.key_cache + uint64_t(position) * key_stride;
            score = 0.0;
            for (uint i = 0; i < size; i += 4) {
                vec4 q = vec4(query[i], query[i + 1], query[i + 2], query[i + 3]);
                score += dot(q, load_cache4(row, KEY_FORMAT, kv_first + i));
            }
        }
        float raised = max(highest, workgroup_max(score));
        float weight = position < count ? exp(score - raised) : 0.0;
        weights[thread_index()] = weight;
        float keep = exp(highest - raised); // 0 for the first tile
        sum = sum * keep + workgroup_sum(weight);
        highest = raised;
        // workgroup_sum ended with a barrier: every weight of the tile is visible
        uint in_tile = min(workgroup_size(), count - tile);
        for (uint i = thread_index(); i < size; i += workgroup_size()) {
            float value = weighted[i] * keep;
            for (uint t = 0; t < in_tile; t++) {
                value += weights[t] * load_cache(push.value_cache + uint64_t(tile + t) * value_stride, VALUE_FORMAT, kv_first + i);
            }
            weighted[i] = value;
        }
        barrier(); // the weights have been read
    }

    uint64_t partial = push.partials + uint64_t((head * push.splits + split) * (size + 2) * 4);
    for (uint i = thread_index(); i < size; i += workgroup_size()) store_f32(partial, i * 4, weighted[i]);
    if (thread_index() == 0) {
        store_f32(partial, size * 4, highest);
        store_f32(partial, size * 4 + 4, sum);
    }
}
