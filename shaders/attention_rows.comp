// Attention for many rows of a step, whose queries `append` has prepared and whose keys and values it has put into the cache. A subgroup does for a row
// and HEADS query heads what the workgroups of `attention` do, one share after the other, with the same bits: where there are many rows, nothing is
// gained by splitting the context of each.
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
layout(constant_id = 6) const uint KV_HEADS = 1;    // key and value heads
layout(constant_id = 7) const uint GROUPS = 1;      // subgroups that share a key and value head
layout(constant_id = 8) const uint SHARES = 1;      // of a split: subgroups in a workgroup of `attention`
layout(constant_id = 9) const uint LANE_PAGES = 0;  // that the table of a lane has room for; 0: there are no tables
layout(constant_id = 10) const uint WINDOW = 0;     // the keys that a row attends to; 0: all
layout(constant_id = 11) const uint SINKS = 0;      // 1: heads have sinks
layout(constant_id = 12) const uint RING_PAGES = 0; // of a lane; 0: there are no rings
#include "include/cache_rows.glsl"
#include "include/window.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32, prepared
    uint64_t key_cache;   // [positions, KV_HEADS * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [positions, KV_HEADS * HEAD_SIZE] in VALUE_FORMAT
    uint64_t y;           // [query_heads, HEAD_SIZE] f32; what is joined so far, until all is
    uint64_t sinks;       // [query_heads] f32, read by SINKS
    uint rows;            // that there are operands for
    uint splits;          // workgroups that `attention` splits a context into
    uint q_stride;        // bytes from one row of the step to the next, as y_stride
    uint y_stride;
} push;

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
#define SETS SUBGROUPS
#define PLACES SHARES
#include "include/splits.glsl"
#include "include/attention_share.glsl"

void subgroup_shares_barrier() {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

void main() {
    uint row = gl_WorkGroupID.z * SUBGROUPS + gl_SubgroupID, group = gl_WorkGroupID.x, set = gl_SubgroupID;
    if (row >= min(row_count(push.state), push.rows)) return;
    uint position = load_u32(push.state, ROWS_OFFSET + row * ROW_BYTES + 8);
    uint lane = gl_SubgroupInvocationID, kv_head = group / GROUPS;
    LanePages pages = pages_of_lane(push.state, load_u32(push.state, ROWS_OFFSET + row * ROW_BYTES + 12));
    uint64_t key_cache = cache_of_head(push.key_cache, KEY_FORMAT, kv_head);
    uint64_t value_cache = cache_of_head(push.value_cache, VALUE_FORMAT, kv_head);
    uint64_t q = push.q + uint64_t(row * push.q_stride), y = push.y + uint64_t(row * push.y_stride);
    for (uint i = lane; i < HEADS * PARTS; i += SUBGROUP) {
        precise vec4 part = load_vec4(q, (group * HEADS * PARTS + i) * 16) / sqrt(float(HEAD_SIZE));
        query[set * HEADS * PARTS + i] = part;
    }
    subgroup_shares_barrier();
    load_query(set * HEADS * PARTS);

    uint tiles = position / TILE + 1; // the row's own entry counts
    uint start_tile = first_attended(position) / TILE, first_turn = start_tile / SHARES;
    uint splits = push.splits, filled_splits = min(splits, (tiles + SHARES - 1) / SHARES - first_turn);
    vec2 joined_splits = vec2(0.0); // the maximum and the sum of head `lane`, if there is one
    float sink = SINKS != 0 ? sink_of_head(push.sinks, group * HEADS + min(lane, HEADS - 1)) : 0.0; // of that head
    for (uint split = 0; split < filled_splits; split++) {
        uint first_tile = (first_turn + split) * SHARES, filled = min(SHARES, tiles - first_tile);
        for (uint share = 0; share < filled; share++) {
            uint own_first_tile = first_tile + share;
            if (WINDOW != 0 && own_first_tile < start_tile) own_first_tile += splits * SHARES;
            begin_share();
            look_up(WINDOW == 0 ? own_first_tile : min(own_first_tile, tiles - 1), pages);
            for (uint tile = own_first_tile; tile < tiles; tile += splits * SHARES) {
                load_tile(tile, position, key_cache, value_cache);
                look_up(min(tile + splits * SHARES, tiles - 1), pages);
                take_tile(tile, position);
            }
            store_share(set, share);
        }
        subgroup_shares_barrier();
        vec2 all = join_shares(set, filled, lane, SUBGROUP);
        float highest = split == 0 ? all.x : max(joined_splits.x, all.x);
        vec2 keep = split == 0 ? vec2(0.0, 1.0) : vec2(kept(joined_splits.x, highest), kept(all.x, highest));
        joined_splits = vec2(highest, join_split(joined_splits.y, keep.x, all.y, keep.y));
        subgroup_shares_barrier();
        for (uint first = 0; first < HEADS * PARTS; first += SUBGROUP) {
            uint i = min(first + lane, HEADS * PARTS - 1), h = i / PARTS;
            vec2 keep_of_head = subgroupShuffle(keep, h);
            float total = subgroupShuffle(joined_splits.y, h);
            vec2 highest_and_sink = SINKS != 0 ? subgroupShuffle(vec2(joined_splits.x, sink), h) : vec2(0.0);
            if (first + lane >= HEADS * PARTS) continue;
            // Each lane reads what it has written itself.
            uint at = (group * HEADS * PARTS + i) * 16;
            vec4 before = split == 0 ? vec4(0.0) : load_vec4(y, at);
            vec4 value = join_split(before, keep_of_head.x, joined_part(set, filled, i), keep_of_head.y);
            store_vec4(y, at, split + 1 == filled_splits ? result_of_splits(value, total, highest_and_sink.x, highest_and_sink.y) : value);
        }
        subgroup_shares_barrier();
    }
}
