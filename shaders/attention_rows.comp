// Attention for many rows of a step, whose keys and values `append` has put into the cache: normalises and rotates a row's queries and attends to the
// cache. A subgroup does for a row and HEADS query heads what the workgroups of `attention` do, one share after the other, with the same bits:
// where there are many rows, nothing is gained by splitting the context of each.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/cache.glsl"

layout(constant_id = 2) const uint HEAD_SIZE = 64;  // a multiple of 16
layout(constant_id = 3) const uint HEADS = 1;       // query heads of a subgroup
layout(constant_id = 4) const uint KEY_FORMAT = 0;
layout(constant_id = 5) const uint VALUE_FORMAT = 0;
layout(constant_id = 6) const uint PAIRING = 0;     // which elements rotate together
layout(constant_id = 7) const uint NORMALISE = 0;   // 1: heads are RMS-normalised first
layout(constant_id = 8) const uint ROTATED = 0;     // leading elements of a head that rotate
layout(constant_id = 9) const uint KV_HEADS = 1;    // key and value heads
layout(constant_id = 10) const float EPSILON = 0.0; // of the normalisation
layout(constant_id = 11) const uint GROUPS = 1;     // subgroups that share a key and value head
layout(constant_id = 12) const uint SHARES = 1;     // of a split: subgroups in a workgroup of `attention`
#include "include/heads.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32
    uint64_t q_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t rotation;    // [context, ROTATED / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [context, KV_HEADS * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [context, KV_HEADS * HEAD_SIZE] in VALUE_FORMAT
    uint64_t partials;    // [rows, groups, splits, HEADS * (HEAD_SIZE + 4)] f32: weighted values
    uint64_t y;           // [query_heads, HEAD_SIZE] f32
    uint rows;            // that there are operands for
    uint splits;          // workgroups that `attention` splits a context into
    uint q_stride;        // bytes from one row of the step to the next, as y_stride
    uint y_stride;
} push;

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
#define SETS SUBGROUPS
#include "include/attention_share.glsl"

// The maxima and sums of the splits joined so far: lane l has those of head h of split s where s * HEADS + h = l, l + SUBGROUP and so on.
const uint OWN_SPLITS = (MAX_SHARES * HEADS + SUBGROUP - 1) / SUBGROUP;

void subgroup_shares_barrier() {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

void main() {
    uint row = gl_WorkGroupID.z * SUBGROUPS + gl_SubgroupID, group = gl_WorkGroupID.x, set = gl_SubgroupID;
    if (row >= min(row_count(push.state), push.rows)) return;
    uint position = load_u32(push.state, ROWS_OFFSET + row * ROW_BYTES + 8);
    uint lane = gl_SubgroupInvocationID, kv_head = group / GROUPS;
    uint64_t key_cache = cache_of_head(push.key_cache, KEY_FORMAT, kv_head);
    uint64_t value_cache = cache_of_head(push.value_cache, VALUE_FORMAT, kv_head);
    uint64_t q = push.q + uint64_t(row * push.q_stride), y = push.y + uint64_t(row * push.y_stride);
    for (uint h = 0; h < HEADS; h++) {
        prepare_query(q + uint64_t((group * HEADS + h) * HEAD_SIZE * 4), push.q_norm, push.rotation, position, (set * HEADS + h) * PARTS);
    }
    subgroup_shares_barrier();
    load_query(set * HEADS * PARTS);

    uint tiles = position / TILE + 1; // the row's own entry counts
    uint splits = push.splits, sharers = min(splits, (tiles + SHARES - 1) / SHARES);
    uint share_bytes = HEADS * (HEAD_SIZE + 4) * 4;
    uint64_t shares = push.partials + uint64_t((row * gl_NumWorkGroups.x + group) * splits * share_bytes);
    vec2 of_splits[OWN_SPLITS];
    for (uint split = 0; split < sharers; split++) {
        uint first_tile = split * SHARES, filled = min(SHARES, tiles - first_tile);
        for (uint share = 0; share < filled; share++) {
            begin_share();
            for (uint tile = first_tile + share; tile < tiles; tile += splits * SHARES) {
                load_tile(tile, position, key_cache, value_cache);
                take_tile(tile, position);
            }
            store_share(set, share);
        }
        subgroup_shares_barrier();
        vec2 all = join_shares(set, filled, sharers == 1, lane, SUBGROUP);
        subgroup_shares_barrier();
        for (uint i = lane; i < HEADS * PARTS; i += SUBGROUP) {
            vec4 value = joined_part(set, filled, i);
            if (sharers > 1) store_vec4(shares + uint64_t(split * share_bytes), i * 16, value);
            else store_vec4(y, (group * HEADS * PARTS + i) * 16, value);
        }
        // Head h's maximum and sum, which lane h has, go to the lane that keeps them.
        [[unroll]] for (uint n = 0; n < OWN_SPLITS; n++) {
            uint own = n * SUBGROUP + lane;
            vec2 of_head = subgroupShuffle(all, own % HEADS);
            if (own / HEADS == split) of_splits[n] = of_head;
        }
        subgroup_shares_barrier();
    }
    if (sharers == 1) return;

    [[unroll]] for (uint n = 0; n < OWN_SPLITS; n++) {
        uint own = n * SUBGROUP + lane;
        if (own < sharers * HEADS) {
            maxima[set * MAX_SHARES * HEADS + own] = of_splits[n].x;
            sums[set * MAX_SHARES * HEADS + own] = of_splits[n].y;
        }
    }
    subgroup_shares_barrier();
    join_shares(set, sharers, true, lane, SUBGROUP);
    subgroup_shares_barrier();
    // Each lane reads what it has written itself.
    for (uint i = lane; i < HEADS * PARTS; i += SUBGROUP) {
        vec4 value = vec4(0.0);
        for (uint s = 0; s < sharers; s++) {
            value = add_scaled(value, load_vec4(shares + uint64_t(s * share_bytes), i * 16), keeps[(set * MAX_SHARES + s) * HEADS + i / PARTS]);
        }
        store_vec4(y, (group * HEADS * PARTS + i) * 16, value);
    }
}
