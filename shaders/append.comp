// The append to the KV cache: normalises and rotates the queries and keys of each row of the step, and stores its keys and values at the row's position.
// The queries stay where they are.
//
// One subgroup takes the key and the value of one head of one row, or one query. In steps of many rows `attention_rows` reads what this has stored; in
// others `attention` does the same for itself.
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
layout(constant_id = 6) const uint NORMALISE = 0;  // 1: queries and keys are RMS-normalised first
layout(constant_id = 7) const uint ROTATED = 0;    // leading elements of a head that rotate
layout(constant_id = 8) const uint KV_HEADS = 1;   // key and value heads
layout(constant_id = 9) const float EPSILON = 0.0; // of the normalisation
layout(constant_id = 10) const uint LANE_PAGES = 0; // that the table of a lane has room for; 0: there are no tables
layout(constant_id = 11) const uint RING_PAGES = 0; // of a lane; 0: there are no rings
#include "include/cache_rows.glsl"
#include "include/heads.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32
    uint64_t k;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t v;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t q_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t k_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t rotation;    // [context, ROTATED / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [positions, KV_HEADS * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [positions, KV_HEADS * HEAD_SIZE] in VALUE_FORMAT
    uint query_heads;
    uint q_stride;        // bytes from one row of the step to the next, as the strides below
    uint k_stride;
    uint v_stride;
} push;

void main() {
    bool live = row_is_live(push.state);
    uint position = row_position(push.state);
    LanePages pages = pages_of_lane(push.state, row_lane(push.state));
    uint item = flat_subgroup(); // key and value heads first, then queries
    if (!live || item >= KV_HEADS + push.query_heads) return;
    vec2 pairs[OWN_PAIRS];
    if (item < KV_HEADS) {
        uint64_t head = uint64_t(item * HEAD_SIZE * 4);
        vec2 value[OWN_PAIRS];
        load_pairs(of_row(push.v, push.v_stride) + head, value);
        prepare_head(of_row(push.k, push.k_stride) + head, push.k_norm, push.rotation, position, pairs);
        make_finite(pairs, value);
        uint page = page_of(pages, position);
        uint64_t key_row = cache_row(cache_of_head(push.key_cache, KEY_FORMAT, item), KEY_FORMAT, page, position);
        store_entry(key_row, cache_row(cache_of_head(push.value_cache, VALUE_FORMAT, item), VALUE_FORMAT, page, position), pairs, value);
        return;
    }
    uint64_t head = of_row(push.q, push.q_stride) + uint64_t((item - KV_HEADS) * HEAD_SIZE * 4);
    prepare_head(head, push.q_norm, push.rotation, position, pairs);
    // Each lane stores what it has loaded itself.
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uint p = gl_SubgroupInvocationID + n * SUBGROUP;
        if (p >= HEAD_SIZE / 2) continue;
        uvec2 i = pair_elements(p);
        store_f32(head, i.x * 4, pairs[n].x);
        store_f32(head, i.y * 4, pairs[n].y);
    }
}
