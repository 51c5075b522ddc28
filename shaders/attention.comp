// Attention of each row of the step: normalises and rotates its queries and its key, appends key and value to the cache, attends to the cache,
// and joins the splits of the context.
//
// Workgroup (split, group) takes HEADS query heads. The context, or what a window holds of it, is split over workgroups and their subgroups by tiles; the grid
// does not depend on the context length, so that one recording serves every position. Splits without a tile read their part of the weights of the operation
// that follows, which then finds it in the cache. The workgroup of a group that finishes last joins the splits, in order, and the sinks of the heads behind
// them. Every workgroup prepares the queries for itself. Those whose tiles hold positions of the step's rows, up to their own row's, write these to the cache
// before they read them: what several write is the same.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/cache.glsl"
#include "include/activations.glsl"
#include "include/arrivals.glsl"

layout(constant_id = 2) const uint HEAD_SIZE = 64;  // a multiple of 16
layout(constant_id = 3) const uint HEADS = 1;       // query heads of a workgroup
layout(constant_id = 4) const uint KEY_FORMAT = 0;
layout(constant_id = 5) const uint VALUE_FORMAT = 0;
layout(constant_id = 6) const uint PAIRING = 0;     // which elements rotate together
layout(constant_id = 7) const uint NORMALISE = 0;   // 1: heads are RMS-normalised first
layout(constant_id = 8) const uint OUT = 0;         // ACT_Q14: y is rounded, and a workgroup has whole groups of 256 elements of it
layout(constant_id = 9) const uint ROTATED = 0;     // leading elements of a head that rotate
layout(constant_id = 10) const uint KV_HEADS = 1;   // key and value heads
layout(constant_id = 11) const float EPSILON = 0.0; // of the normalisation
layout(constant_id = 12) const uint GROUPS = 1;     // workgroups that share a key and value head
layout(constant_id = 13) const uint LANE_PAGES = 0; // that the table of a lane has room for; 0: there are no tables
layout(constant_id = 14) const uint WINDOW = 0;     // the keys that a row attends to; 0: all
layout(constant_id = 15) const uint SINKS = 0;      // 1: heads have sinks
layout(constant_id = 16) const uint RING_PAGES = 0; // of a lane; 0: there are no rings
#include "include/cache_rows.glsl"
#include "include/window.glsl"
#include "include/heads.glsl"

#include "include/attention_step.glsl"

const uint SPLITS_AHEAD = 8; // loaded before the first is used
#define SETS 1
#define SHARES SUBGROUPS
#define PLACES MAX_SPLITS
#include "include/splits.glsl"
#include "include/attention_share.glsl"

shared float before_keeps[PLACES * HEADS]; // [split, head]: what is left of the splits before

vec4 head_part(uint part) { return joined[part]; }

// Puts the prepared query head `item` of the workgroup into `query`.
void prepare_query(uint item, uint position) {
    vec2 pairs[OWN_PAIRS];
    prepare_query_head(item, position, pairs);
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uint p = gl_SubgroupInvocationID + n * SUBGROUP;
        if (p >= HEAD_SIZE / 2) continue;
        uvec2 i = pair_elements(p);
        precise vec2 part = pairs[n] / sqrt(float(HEAD_SIZE));
        query[item * PARTS + i.x / 4][i.x % 4] = part.x;
        query[item * PARTS + i.y / 4][i.y % 4] = part.y;
    }
}

// Stores part `i` of the result: into shared memory if it is still to be rounded.
void store_part(uint64_t y, uint i, vec4 value) {
    if (OUT == ACT_Q14) joined[i] = value;
    else store_vec4(y, (gl_WorkGroupID.y * HEADS * PARTS + i) * 16, value);
}

void main() {
    bool live = row_is_live(push.state);
    // A step that has room for one row has the first of its lane.
    uint position = row_position(push.state), offset = gl_NumWorkGroups.z == 1 ? 0 : row_offset(push.state);
    uint first_position = position - offset; // of the lane's first row
    LanePages pages = pages_of_lane(push.state, row_lane(push.state));
    if (!live) return;
    uint tiles = position / TILE + 1; // the row's own entry counts
    uint start_tile = first_attended(position) / TILE, first_turn = start_tile / SUBGROUPS;
    uint split = gl_WorkGroupID.x, splits = gl_NumWorkGroups.x, group = gl_WorkGroupID.y;
    uint first_tile = (first_turn + split) * SUBGROUPS, stride = splits * SUBGROUPS;
    if (first_tile >= tiles) {
        if (row_index() == 0) warm_cache();
        return;
    }
    uint kv_head = group / GROUPS;
    uint64_t key_cache = cache_of_head(push.key_cache, KEY_FORMAT, kv_head);
    uint64_t value_cache = cache_of_head(push.value_cache, VALUE_FORMAT, kv_head);

    // The first tile is under way while the queries are prepared.
    uint own_first_tile = first_tile + gl_SubgroupID;
    if (WINDOW != 0 && own_first_tile < start_tile) own_first_tile += stride;
    uint tile = own_first_tile;
    if (tile < tiles) {
        look_up(tile, pages);
        load_tile(tile, position, key_cache, value_cache);
    }
    load_first_sink();

    // The queries, and of the positions of the lane's rows those in the workgroup's tiles: keys and values. Groups that share the latter, and the
    // workgroups of other rows, write equal bytes.
    uvec2 own = own_positions(first_position, position, start_tile * TILE, TILE * SUBGROUPS, first_turn, split, splits);
    for (uint item = gl_SubgroupID; item < HEADS + own.y; item += SUBGROUPS) {
        uint at = own.x + item - HEADS;
        if (item < HEADS) prepare_query(item, position);
        else append_entry(row_index() - offset + (at - first_position), at, pages);
    }
    memoryBarrierBuffer();
    barrier();

    load_query(0);
    begin_share();
    for (; tile < tiles; tile += stride) {
        // What was loaded ahead lacks the positions of the step's rows.
        if (tile != own_first_tile || tile >= first_position / TILE) load_tile(tile, position, key_cache, value_cache);
        look_up(min(tile + stride, tiles - 1), pages);
        take_tile(tile, position);
    }
    store_share(0, gl_SubgroupID);
    barrier();

    // The subgroups' shares become the workgroup's split, and the splits the result, in a fixed order.
    uint filled = min(SUBGROUPS, tiles - first_tile), sharers = min(splits, (tiles + SUBGROUPS - 1) / SUBGROUPS - first_turn);
    vec2 all = join_shares(0, filled, thread_index(), gl_WorkGroupSize.x);
    barrier();
    if (SINKS != 0 && sharers == 1) {
        // The maximum of each head, for its sink.
        if (thread_index() < HEADS) maxima[thread_index()] = all.x;
        barrier();
    }
    uint64_t y = of_row(push.y, push.y_stride), partials = own_partials();
    uint64_t own_split = partials + uint64_t(split * SPLIT_BYTES);
    for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) {
        vec4 value = joined_part(0, filled, i);
        if (sharers > 1) store_shared_vec4(own_split, i * 16, value);
        else store_part(y, i, result_of_splits(value, totals[i / PARTS], maxima[i / PARTS], sink_of_part(i)));
    }
    if (sharers == 1) {
        if (OUT == ACT_Q14) store_rounded_heads(y);
        return;
    }
    if (thread_index() < HEADS) store_shared_vec4(own_split, (HEADS * PARTS + thread_index()) * 16, vec4(all, 0.0, 0.0));
    if (!last_to_arrive(push.counters + uint64_t((row_index() * gl_NumWorkGroups.y + group) * 4), sharers)) return;

    for (uint i = thread_index(); i < HEADS * sharers; i += gl_WorkGroupSize.x) {
        vec2 of_split = load_vec4(partials, i / HEADS * SPLIT_BYTES + (HEADS * PARTS + i % HEADS) * 16).xy;
        maxima[i] = of_split.x;
        sums[i] = of_split.y;
    }
    barrier();
    for (uint i = thread_index(); i < HEADS * sharers; i += gl_WorkGroupSize.x) {
        float before = MINUS_INFINITY;
        for (uint earlier = i % HEADS; earlier < i; earlier += HEADS) before = max(before, maxima[earlier]);
        float highest = max(before, maxima[i]);
        before_keeps[i] = i < HEADS ? 0.0 : kept(before, highest);
        keeps[i] = i < HEADS ? 1.0 : kept(maxima[i], highest);
        // From here on `totals` has the maximum of all splits.
        if (SINKS != 0 && i >= (sharers - 1) * HEADS) totals[i % HEADS] = highest;
    }
    barrier();
    for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) {
        vec4 value = vec4(0.0);
        float total = 0.0;
        for (uint first = 0; first < sharers; first += SPLITS_AHEAD) {
            vec4 of_split[SPLITS_AHEAD];
            [[unroll]] for (uint s = 0; s < SPLITS_AHEAD; s++) {
                of_split[s] = load_vec4(partials, min(first + s, sharers - 1) * SPLIT_BYTES + i * 16);
            }
            [[unroll]] for (uint s = 0; s < SPLITS_AHEAD; s++) {
                if (first + s >= sharers) continue;
                uint at = (first + s) * HEADS + i / PARTS;
                value = join_split(value, before_keeps[at], of_split[s], keeps[at]);
                total = join_split(total, before_keeps[at], sums[at], keeps[at]);
            }
        }
        store_part(y, i, result_of_splits(value, total, totals[i / PARTS], sink_of_part(i)));
    }
    if (OUT == ACT_Q14) store_rounded_heads(y);
}
