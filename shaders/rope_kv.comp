// Prepares attention for one token: normalises each query and key head (where the model does), rotates both by the token's
// position, and appends the key and the value to the cache. One workgroup handles one head.
//
// Rotary embedding: Su et al., RoFormer, 2021. The cosines and sines come from a table made by the host, because the precision that
// Vulkan promises for cos and sin is too low for long contexts.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"
#include "include/half.glsl"
#include "include/cache.glsl"

layout(constant_id = 2) const uint PAIRING = 0;     // which elements rotate together
layout(constant_id = 3) const uint NORMALISE = 0;   // 1: heads are RMS-normalised first
layout(constant_id = 4) const uint KEY_FORMAT = 0;  // of the cache
layout(constant_id = 5) const uint VALUE_FORMAT = 0;
const uint HALVES = 0, INTERLEAVED = 1;             // (i, i + n/2) or (2i, 2i + 1)

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, head_size] f32, rotated in place
    uint64_t k;           // [kv_heads, head_size] f32
    uint64_t v;           // [kv_heads, head_size] f32
    uint64_t q_norm;      // [head_size] f32, read by NORMALISE
    uint64_t k_norm;      // [head_size] f32, read by NORMALISE
    uint64_t rotation;    // [context, rotated / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [context, kv_heads * head_size] in KEY_FORMAT
    uint64_t value_cache; // [context, kv_heads * head_size] in VALUE_FORMAT
    uint query_heads;
    uint kv_heads;
    uint head_size;       // at most 512
    uint rotated;         // leading elements of a head that rotate
    float epsilon;
} push;

shared float head[512];

void store_cache(uint64_t cache, uint format, uint index, float value) {
    if (format == CACHE_F16) store_u16(cache, index * 2, half_bits(value));
    else store_f32(cache, index * 4, value);
}

float rotate(uint i, uint position) {
    if (i >= push.rotated) return head[i];
    uint half_count = push.rotated / 2;
    uint pair = PAIRING == HALVES ? i % half_count : i / 2;
    bool second = PAIRING == HALVES ? i >= half_count : (i & 1u) != 0u;
    uint first_index = PAIRING == HALVES ? pair : pair * 2;
    uint second_index = PAIRING == HALVES ? pair + half_count : pair * 2 + 1;
    uint64_t angles = push.rotation + uint64_t(position) * uint64_t(half_count * 8);
    float cosine = load_f32(angles, pair * 8), sine = load_f32(angles, pair * 8 + 4);
    float a = head[first_index], b = head[second_index];
    return second ? a * sine + b * cosine : a * cosine - b * sine;
}

void main() {
    if (!step_is_live(push.state)) return;
    uint position = StepState(push.state).position;
    uint index = flat_workgroup();
    uint size = push.head_size;
    uint kv_width = push.kv_heads * size;
    uint64_t key_row = push.key_cache + uint64_t(position) * uint64_t(kv_width * (KEY_FORMAT == CACHE_F16 ? 2 : 4));
    uint64_t value_row = push.value_cache + uint64_t(position) * uint64_t(kv_width * (VALUE_FORMAT == CACHE_F16 ? 2 : 4));

    if (index >= push.query_heads + push.kv_heads) {
        uint first = (index - push.query_heads - push.kv_heads) * size;
        for (uint i = thread_index(); i < size; i += workgroup_size()) {
            store_cache(value_row, VALUE_FORMAT, first + i, load_f32(push.v, (first + i) * 4));
        }
        return;
    }

    bool is_query = index < push.query_heads;
    uint first = (is_query ? index : index - push.query_heads) * size;
    uint64_t source = is_query ? push.q : push.k;
    float scale = 1.0;
    if (NORMALISE == 1) {
        float squares = 0.0;
        for (uint i = thread_index(); i < size; i += workgroup_size()) {
            float x = load_f32(source, (first + i) * 4);
            squares += x * x;
        }
        scale = 1.0 / sqrt(workgroup_sum(squares) / float(size) + push.epsilon);
    }
    for (uint i = thread_index(); i < size; i += workgroup_size()) {
        float x = load_f32(source, (first + i) * 4);
        if (NORMALISE == 1) x = x * scale * load_f32(is_query ? push.q_norm : push.k_norm, i * 4);
        head[i] = x;
    }
    barrier();
    for (uint i = thread_index(); i < size; i += workgroup_size()) {
        float x = rotate(i, position);
        if (is_query) store_f32(push.q, (first + i) * 4, x);
        else store_cache(key_row, KEY_FORMAT, first + i, x);
    }
}
