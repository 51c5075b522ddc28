// The form of `attention` for float matrix units, and caches of halves.
//
// Workgroup (share, group) takes HEADS query heads of a row, which are rows of one fragment, and every so many of the context's splits of 256 keys, or of those that a
// window reaches into: as many as there are shares lie between two of its splits. Its teams of 32 lanes work on the fragment together. As in the other form the
// grid does not depend on the context length, workgroups without a split read their part of the weights of the operation that follows, and the last workgroup of
// a group to finish joins the splits, in order, and the sinks of the heads behind them.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
uint own_row; // the number of the workgroup's row
#define ROW_INDEX own_row
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/cache.glsl"
#include "include/activations.glsl"
#include "include/arrivals.glsl"

layout(constant_id = 2) const uint HEAD_SIZE = 64;     // 64, 128 or 256
layout(constant_id = 3) const uint HEADS = 1;          // query heads of a workgroup: at most 16
layout(constant_id = 4) const uint PAIRING = 0;        // which elements rotate together
layout(constant_id = 5) const uint NORMALISE = 0;      // 1: heads are RMS-normalised first
layout(constant_id = 6) const uint OUT = 0;            // ACT_Q14: y is rounded, and a workgroup has whole groups of 256 elements of it
layout(constant_id = 7) const uint ROTATED = 0;        // leading elements of a head that rotate
layout(constant_id = 8) const uint KV_HEADS = 1;       // key and value heads
layout(constant_id = 9) const float EPSILON = 0.0;     // of the normalisation
layout(constant_id = 10) const uint GROUPS = 1;        // workgroups that share a key and value head
layout(constant_id = 11) const float QUERY_SCALE = 1.0; // log2(e) / sqrt(HEAD_SIZE)
layout(constant_id = 12) const uint LANE_PAGES = 0;    // that the table of a lane has room for; 0: there are no tables
layout(constant_id = 13) const uint WINDOW = 0;        // the keys that a row attends to; 0: all
layout(constant_id = 14) const uint SINKS = 0;         // 1: heads have sinks
layout(constant_id = 15) const uint SHARING_ROWS = 0;  // that the step has room for, if they share out the workgroups; 0: each row has its own in z
layout(constant_id = 16) const uint RING_PAGES = 0;    // of a lane; 0: there are no rings
#define KEY_FORMAT CACHE_F16
#define VALUE_FORMAT CACHE_F16
#include "include/cache_rows.glsl"
#include "include/window.glsl"
#include "include/heads.glsl"
#include "include/attention_step.glsl"
#include "include/splits.glsl"
#define SHARERS (gl_WorkGroupSize.x / 32)
#include "include/attention_tile.glsl"
#include "include/shared_out.glsl"

const uint TILES = SPLIT / TILE;         // of a split
const uint JOINED = 512;                 // splits times heads that are joined between two barriers
const uint AT_A_TIME = JOINED / HEADS;   // splits
const uint SPLITS_AHEAD = 8;             // loaded before the first is used
shared float split_maxima[JOINED];       // [split, head]: the highest score of a split
shared float split_sums[JOINED];         // [split, head]: the sum of its weights
shared float before_kept[JOINED];        // [split, head]: the factor of what the splits before have given
shared float own_kept[JOINED];           // [split, head]: the factor of what the split has given
shared float carried[HEADS];             // the highest maximum of the splits that are joined

// In shared memory, where no tile is staged: parts of queries in f32, and behind them halves; in the end parts of the result.
const uint QUERY_HALVES = 16 * PARTS;
vec4 head_part(uint part) { return uintBitsToFloat(staged[part]); }

// Puts the prepared query head `item` of the workgroup into shared memory.
void prepare_query(uint item, uint position) {
    vec2 pairs[OWN_PAIRS];
    prepare_query_head(item, position, pairs);
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uint p = gl_SubgroupInvocationID + n * SUBGROUP;
        if (p >= HEAD_SIZE / 2) continue;
        uvec2 i = pair_elements(p);
        staged[item * PARTS + i.x / 4][i.x % 4] = floatBitsToUint(pairs[n].x);
        staged[item * PARTS + i.y / 4][i.y % 4] = floatBitsToUint(pairs[n].y);
    }
}

// Rounds the prepared queries to halves and loads them. Rows of the fragment without a head are zeros.
void load_queries() {
    for (uint i = lane_index(); i < 16 * EIGHTS; i += gl_WorkGroupSize.x) {
        uint part = i / EIGHTS * PARTS + i % EIGHTS * 2u;
        uvec4 halves = i / EIGHTS < HEADS ? query_halves(head_part(part), head_part(part + 1)) : uvec4(0);
        staged[QUERY_HALVES + i / EIGHTS * STRIDE + i % EIGHTS] = halves;
    }
    barrier();
    load_query(QUERY_HALVES);
}

// Puts the values, the maxima and the sums of the workgroup's present split into shared memory. Every thread takes part.
void show_split() {
    barrier();
    UNROLL for (uint n = 0; n < OWN_HEAD; n++) {
        UNROLL for (uint i = 0; i < 8; i++) {
            uint column = (team_index() * OWN_HEAD + n) * 16 + element_column(i);
            if (element_row(i) < HEADS) staged[element_row(i) * PARTS + column / 4u][column % 4u] = floatBitsToUint(ELEMENT(values[n], i));
        }
    }
    if (team_index() == 0 && team_lane() % 4u == 0u) {
        UNROLL for (uint r = 0; r < 2; r++) {
            if (element_row(r * 4) < HEADS) {
                split_maxima[element_row(r * 4)] = maximum[r];
                split_sums[element_row(r * 4)] = ELEMENT(sums, r * 4);
            }
        }
    }
    barrier();
}

// Joins the first `count` splits, whose partial results are at `partials`, and puts the result into shared memory.
void join_splits(uint64_t partials, uint count) {
    const uint OWN_PARTS = (HEADS * PARTS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    vec4 joined[OWN_PARTS];
    float total[OWN_PARTS];
    [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) {
        joined[n] = vec4(0.0);
        total[n] = 0.0;
    }
    if (thread_index() < HEADS) carried[thread_index()] = NO_MAXIMUM;
    for (uint first = 0; first < count; first += AT_A_TIME) {
        uint splits = min(count - first, AT_A_TIME);
        for (uint i = thread_index(); i < splits * HEADS; i += gl_WorkGroupSize.x) {
            vec2 of_split = load_vec4(partials, (first + i / HEADS) * SPLIT_BYTES + (HEADS * PARTS + i % HEADS) * 16).xy;
            split_maxima[i] = of_split.x;
            split_sums[i] = of_split.y;
        }
        barrier();
        for (uint i = thread_index(); i < splits * HEADS; i += gl_WorkGroupSize.x) {
            float before = carried[i % HEADS];
            for (uint earlier = i % HEADS; earlier < i; earlier += HEADS) before = max(before, split_maxima[earlier]);
            float highest = max(before, split_maxima[i]);
            bool is_first = first == 0 && i < HEADS;
            before_kept[i] = is_first ? 0.0 : kept(before, highest);
            own_kept[i] = is_first ? 1.0 : kept(split_maxima[i], highest);
        }
        barrier();
        if (thread_index() < HEADS) {
            for (uint i = thread_index(); i < splits * HEADS; i += HEADS) carried[thread_index()] = max(carried[thread_index()], split_maxima[i]);
        }
        [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) {
            uint part = min(n * gl_WorkGroupSize.x + lane_index(), HEADS * PARTS - 1), head = part / PARTS;
            for (uint s = 0; s < splits; s += SPLITS_AHEAD) {
                vec4 own[SPLITS_AHEAD];
                [[unroll]] for (uint ahead = 0; ahead < SPLITS_AHEAD; ahead++) own[ahead] = load_vec4(partials, (first + min(s + ahead, splits - 1)) * SPLIT_BYTES + part * 16);
                [[unroll]] for (uint ahead = 0; ahead < SPLITS_AHEAD; ahead++) {
                    if (s + ahead >= splits) continue;
                    uint i = (s + ahead) * HEADS + head;
                    total[n] = join_split(total[n], before_kept[i], split_sums[i], own_kept[i]);
                    joined[n] = join_split(joined[n], before_kept[i], own[ahead], own_kept[i]);
                }
            }
        }
        barrier();
    }
    [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) {
        uint part = n * gl_WorkGroupSize.x + lane_index();
        if (part >= HEADS * PARTS) continue;
        staged[part] = floatBitsToUint(result_of_splits(joined[n], total[n], carried[part / PARTS], sink_of_part(part)));
    }
}

// The tile that a workgroup takes after `tile`, if the context is that long. There are as many workgroups as `shares`.
uint tile_after(uint tile, uint shares) { return (tile + 1) % TILES != 0 ? tile + 1 : tile + 1 + (shares - 1) * TILES; }

void main() {
    uint share = gl_WorkGroupID.x, shares = gl_NumWorkGroups.x;
    bool live;
    if (SHARING_ROWS == 0) {
        own_row = gl_WorkGroupID.z;
        live = row_is_live(push.state);
    } else {
        uint rows = min(row_count(push.state), SHARING_ROWS);
        live = rows > 0;
        Share own = share_of(push.state, share, shares, rows, SHARING_ROWS);
        own_row = own.row;
        share = own.share;
        shares = own.shares;
    }
    // A step that has room for one row has the first of its lane.
    bool is_only_row = SHARING_ROWS == 0 && gl_NumWorkGroups.z == 1;
    uint position = row_position(push.state), offset = is_only_row ? 0 : row_offset(push.state);
    uint first_position = position - offset; // of the lane's first row
    LanePages pages = pages_of_lane(push.state, row_lane(push.state));
    if (!live) return;
    uint group = gl_WorkGroupID.y, kv_head = group / GROUPS;
    uint first_key = first_attended(position), start_tile = first_key / TILE, first_split = first_key / SPLIT;
    uint splits = position / SPLIT + 1 - first_split, sharers = min(shares, splits); // the row's own entry counts
    if (share >= sharers) {
        if (SHARING_ROWS != 0 || row_index() == 0) warm_cache();
        return;
    }
    uint64_t key_cache = cache_of_head(push.key_cache, KEY_FORMAT, kv_head);
    uint64_t value_cache = cache_of_head(push.value_cache, VALUE_FORMAT, kv_head);

    // The first tile is under way while the queries are prepared, unless it has positions of the step's rows.
    uint first_tile = max((first_split + share) * TILES, start_tile), last_tile = position / TILE;
    bool loaded = first_tile < first_position / TILE;
    look_up(first_tile, pages);
    if (loaded) load_tile(first_tile, position, key_cache, value_cache);
    load_first_sink();
    uvec2 own = own_positions(first_position, position, start_tile * TILE, SPLIT, first_split, share, shares);
    for (uint item = gl_SubgroupID; item < HEADS + own.y; item += SUBGROUPS) {
        uint at = own.x + item - HEADS;
        if (item < HEADS) prepare_query(item, position);
        else append_entry(row_index() - offset + (at - first_position), at, pages);
    }
    memoryBarrierBuffer();
    barrier();
    if (!loaded) load_tile(first_tile, position, key_cache, value_cache);
    look_up(min(tile_after(first_tile, shares), last_tile), pages);
    load_queries();

    for (uint split = share; split < splits; split += shares) { // counted from the first
        begin_split();
        uint begin = (first_split + split) * TILES, end = min(begin + TILES, last_tile + 1);
        for (uint tile = max(begin, start_tile); tile < end; tile++) {
            barrier();
            stage_tile();
            barrier();
            uint next = tile + 1 < end ? tile + 1 : begin + shares * TILES;
            if (next <= last_tile) {
                load_tile(next, position, key_cache, value_cache);
                look_up(min(tile_after(next, shares), last_tile), pages);
            }
            take_tile(tile * TILE, uvec2(position), tile * TILE < first_key || (tile + 1) * TILE > position + 1);
        }
        show_split();
        if (splits == 1) break;
        uint64_t at = own_partials() + uint64_t(split * SPLIT_BYTES);
        for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) store_shared_vec4(at, i * 16, head_part(i));
        if (thread_index() < HEADS) {
            vec4 rest = vec4(split_maxima[thread_index()], split_sums[thread_index()], 0.0, 0.0);
            store_shared_vec4(at, (HEADS * PARTS + thread_index()) * 16, rest);
        }
    }
    if (splits > 1) {
        if (!last_to_arrive(push.counters + uint64_t((row_index() * gl_NumWorkGroups.y + group) * 4), sharers)) return;
        join_splits(own_partials(), splits);
    } else {
        for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) {
            vec4 value = join_split(vec4(0.0), 0.0, head_part(i), 1.0);
            staged[i] = floatBitsToUint(result_of_splits(value, split_sums[i / PARTS], split_maxima[i / PARTS], sink_of_part(i)));
        }
    }
    uint64_t y = of_row(push.y, push.y_stride);
    if (OUT == ACT_Q14) {
        store_rounded_heads(y);
    } else {
        for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) store_vec4(y, (group * HEADS * PARTS + i) * 16, head_part(i));
    }
}
