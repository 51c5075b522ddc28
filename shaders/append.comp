// The append to the KV cache: normalises and rotates the keys of each row of the step, and stores its keys and values at the row's position.
//
// One subgroup takes the key or the value of one head of one row. In steps of many rows `attention_rows` reads what this has stored; in others
// `attention` does the same for itself.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/cache.glsl"

layout(constant_id = 2) const uint HEAD_SIZE = 64; // a multiple of 16
layout(constant_id = 3) const uint KEY_FORMAT = 0;
layout(constant_id = 4) const uint VALUE_FORMAT = 0;
layout(constant_id = 5) const uint PAIRING = 0;    // which elements rotate together
layout(constant_id = 6) const uint NORMALISE = 0;  // 1: keys are RMS-normalised first
layout(constant_id = 7) const uint ROTATED = 0;    // leading elements of a head that rotate
layout(constant_id = 8) const uint KV_HEADS = 1;   // key and value heads
layout(constant_id = 9) const float EPSILON = 0.0; // of the normalisation
#include "include/heads.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t k;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t v;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t norm;        // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t rotation;    // [context, ROTATED / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [context, KV_HEADS * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [context, KV_HEADS * HEAD_SIZE] in VALUE_FORMAT
    uint k_stride;        // bytes from one row of the step to the next, as the stride below
    uint v_stride;
} push;

void main() {
    bool live = row_is_live(push.state);
    uint position = row_position(push.state);
    uint item = flat_subgroup(), kv_head = item / 2; // a head's key, then its value
    if (!live || kv_head >= KV_HEADS) return;
    uint64_t first = uint64_t(kv_head * HEAD_SIZE * 4);
    if (item % 2 == 0) {
        vec2 pairs[OWN_PAIRS];
        prepare_head(of_row(push.k, push.k_stride) + first, push.norm, push.rotation, position, pairs);
        uint64_t row = cache_row(cache_of_head(push.key_cache, KEY_FORMAT, kv_head), KEY_FORMAT, position);
        [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
            uint p = gl_SubgroupInvocationID + n * SUBGROUP;
            if (p < HEAD_SIZE / 2) store_key_pair(row, p, pairs[n]);
        }
    } else {
        uint64_t row = cache_row(cache_of_head(push.value_cache, VALUE_FORMAT, kv_head), VALUE_FORMAT, position);
        store_value_head(row, of_row(push.v, push.v_stride) + first);
    }
}
