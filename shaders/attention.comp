// Attention of each row of the step: normalises and rotates its queries and its key, appends key and value to the cache, attends to the cache,
// and joins the shares.
//
// Workgroup (split, group) takes HEADS query heads. The context is split over workgroups and their subgroups by tiles; the grid does not depend on the
// context length, so that one recording serves every position. Splits without a tile read the weights of the operation that follows, which then
// finds them in the cache. The workgroup of a group that finishes last joins the shares, in the order of the splits. Every workgroup prepares the
// queries for itself. Those whose tiles hold positions of the step's rows, up to their own row's, write these to the cache before they read them:
// what several write is the same.
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
#include "include/heads.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32
    uint64_t k;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t v;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t q_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t k_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t rotation;    // [context, ROTATED / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [context, KV_HEADS * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [context, KV_HEADS * HEAD_SIZE] in VALUE_FORMAT
    uint64_t partials;    // [rows, groups, splits, HEADS * (HEAD_SIZE + 4)] f32: weighted values; maxima and sums
    uint64_t y;           // [query_heads, HEAD_SIZE] f32, or rounded
    uint64_t counters;    // [rows, groups] u32, 0
    uint64_t next;        // what the next operation reads, a multiple of 16 bytes
    uint next_bytes;
    uint q_stride;        // bytes from one row of the step to the next, as the strides below
    uint k_stride;
    uint v_stride;
    uint y_stride;
} push;

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint SHARES_AHEAD = 8; // loaded before the first is used
const uint WARM_AHEAD = 8;
#define SETS 1
#define SHARES SUBGROUPS
#include "include/attention_share.glsl"

// Brings the next operation's weights into the device's cache, by idle split `idle` of `count` of the step's first row. What is read goes to the
// split's own share of the partials, which nobody reads: else it would not have to be read.
void warm_cache(uint idle, uint count) {
    uint group = gl_WorkGroupID.y, groups = gl_NumWorkGroups.y;
    uint stride = count * groups * gl_WorkGroupSize.x * 16;
    uvec4 read = uvec4(0);
    for (uint at = ((idle * groups + group) * gl_WorkGroupSize.x + lane_index()) * 16; at < push.next_bytes; at += WARM_AHEAD * stride) {
        uvec4 ahead[WARM_AHEAD];
        [[unroll]] for (uint n = 0; n < WARM_AHEAD; n++) ahead[n] = load_uvec4(push.next, min(at + n * stride, push.next_bytes - 16));
        [[unroll]] for (uint n = 0; n < WARM_AHEAD; n++) read ^= ahead[n];
    }
    uint word = subgroupXor(read.x ^ read.y ^ read.z ^ read.w);
    uint64_t share = push.partials + uint64_t((group * gl_NumWorkGroups.x + gl_WorkGroupID.x) * HEADS * (HEAD_SIZE + 4) * 4);
    if (subgroupElect()) store_u32(share, gl_SubgroupID * 4, word);
}

// Rounds the workgroup's heads, which are at the beginning of `joined`. Every thread takes part.
void store_rounded_heads(uint64_t y, uint group) {
    barrier();
    const uint own_groups = HEADS * HEAD_SIZE / 256;
    for (uint g = gl_SubgroupID; g < own_groups; g += SUBGROUPS) {
        vec4 parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) parts[n] = joined[g * 64u + n * SUBGROUP + gl_SubgroupInvocationID];
        store_rounded(y, gl_NumWorkGroups.y * own_groups, group * own_groups + g, parts);
    }
}

void main() {
    bool live = row_is_live(push.state);
    // A step that has room for one row has the first of its lane.
    uint position = row_position(push.state), offset = gl_NumWorkGroups.z == 1 ? 0 : row_offset(push.state);
    uint first_position = position - offset; // of the lane's first row
    if (!live) return;
    uint tiles = position / TILE + 1; // the row's own entry counts
    uint split = gl_WorkGroupID.x, splits = gl_NumWorkGroups.x, group = gl_WorkGroupID.y;
    uint first_tile = split * SUBGROUPS, stride = splits * SUBGROUPS;
    if (first_tile >= tiles) {
        if (row_index() == 0) warm_cache(split - min(splits, (tiles + SUBGROUPS - 1) / SUBGROUPS), splits - (tiles + SUBGROUPS - 1) / SUBGROUPS);
        return;
    }
    uint kv_head = group / GROUPS;
    uint64_t key_cache = cache_of_head(push.key_cache, KEY_FORMAT, kv_head);
    uint64_t value_cache = cache_of_head(push.value_cache, VALUE_FORMAT, kv_head);

    // The first tile is under way while the queries are prepared.
    uint tile = first_tile + gl_SubgroupID;
    if (tile < tiles) load_tile(tile, position, key_cache, value_cache);

    // The queries, and of the positions of the lane's rows those in the workgroup's tiles: keys and values. Groups that share the latter, and the
    // workgroups of other rows, write equal bytes.
    uint own_row = first_position, own_rows = 0;
    uint first_turn = first_position / (TILE * SUBGROUPS), last_turn = (tiles - 1) / SUBGROUPS; // at most one apart
    if (last_turn % splits == split) {
        if (first_turn != last_turn && first_turn % splits != split) own_row = last_turn * TILE * SUBGROUPS;
        own_rows = position + 1 - own_row;
    } else if (first_turn != last_turn && first_turn % splits == split) {
        own_rows = last_turn * TILE * SUBGROUPS - own_row;
    }
    for (uint item = gl_SubgroupID; item < HEADS + 2 * own_rows; item += SUBGROUPS) {
        bool is_query = item < HEADS;
        uint at = is_query ? position : own_row + (item - HEADS) / 2;
        uint row_of_step = row_index() - offset + (at - first_position);
        if (is_query) {
            uint64_t head = push.q + uint64_t(row_of_step * push.q_stride + (group * HEADS + item) * HEAD_SIZE * 4);
            prepare_query(head, push.q_norm, push.rotation, at, item * PARTS);
        } else if ((item - HEADS) % 2 == 0) {
            uint64_t head = push.k + uint64_t(row_of_step * push.k_stride + kv_head * HEAD_SIZE * 4);
            uint64_t row = cache_row(key_cache, KEY_FORMAT, at);
            vec2 pairs[OWN_PAIRS];
            prepare_head(head, push.k_norm, push.rotation, at, pairs);
            [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
                uint p = gl_SubgroupInvocationID + n * SUBGROUP;
                if (p < HEAD_SIZE / 2) store_key_pair(row, p, pairs[n]);
            }
        } else {
            uint64_t head = push.v + uint64_t(row_of_step * push.v_stride + kv_head * HEAD_SIZE * 4);
            store_value_head(cache_row(value_cache, VALUE_FORMAT, at), head);
        }
    }
    memoryBarrierBuffer();
    barrier();

    load_query(0);
    begin_share();
    for (; tile < tiles; tile += stride) {
        // What was loaded ahead lacks the positions of the step's rows.
        if (tile != first_tile + gl_SubgroupID || tile >= first_position / TILE) load_tile(tile, position, key_cache, value_cache);
        take_tile(tile, position);
    }
    store_share(0, gl_SubgroupID);
    barrier();

    // The subgroups' shares become the workgroup's, and the workgroups' the result, in a fixed order.
    uint filled = min(SUBGROUPS, tiles - first_tile), sharers = min(splits, (tiles + SUBGROUPS - 1) / SUBGROUPS);
    vec2 all = join_shares(0, filled, sharers == 1, thread_index(), gl_WorkGroupSize.x);
    barrier();
    uint share_bytes = HEADS * (HEAD_SIZE + 4) * 4;
    uint64_t y = of_row(push.y, push.y_stride);
    uint64_t shares = push.partials + uint64_t((row_index() * gl_NumWorkGroups.y + group) * splits * share_bytes);
    uint64_t share = shares + uint64_t(split * share_bytes);
    for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) {
        vec4 value = joined_part(0, filled, i);
        if (sharers > 1) store_shared_vec4(share, i * 16, value);
        else if (OUT == ACT_Q14) joined[i] = value;
        else store_vec4(y, (group * HEADS * PARTS + i) * 16, value);
    }
    if (sharers == 1) {
        if (OUT == ACT_Q14) store_rounded_heads(y, group);
        return;
    }
    if (thread_index() < HEADS) store_shared_vec4(share, (HEADS * PARTS + thread_index()) * 16, vec4(all, 0.0, 0.0));
    if (!last_to_arrive(push.counters + uint64_t((row_index() * gl_NumWorkGroups.y + group) * 4), sharers)) return;

    for (uint i = thread_index(); i < HEADS * sharers; i += gl_WorkGroupSize.x) {
        vec2 of_share = load_vec4(shares, i / HEADS * share_bytes + (HEADS * PARTS + i % HEADS) * 16).xy;
        maxima[i] = of_share.x;
        sums[i] = of_share.y;
    }
    barrier();
    join_shares(0, sharers, true, thread_index(), gl_WorkGroupSize.x);
    barrier();
    for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) {
        vec4 value = vec4(0.0);
        for (uint first = 0; first < sharers; first += SHARES_AHEAD) {
            vec4 of_share[SHARES_AHEAD];
            [[unroll]] for (uint s = 0; s < SHARES_AHEAD; s++) {
                of_share[s] = load_vec4(shares, min(first + s, sharers - 1) * share_bytes + i * 16);
            }
            [[unroll]] for (uint s = 0; s < SHARES_AHEAD; s++) {
                if (first + s < sharers) value = add_scaled(value, of_share[s], keeps[(first + s) * HEADS + i / PARTS]);
            }
        }
        if (OUT == ACT_Q14) joined[i] = value;
        else store_vec4(y, (group * HEADS * PARTS + i) * 16, value);
    }
    if (OUT == ACT_Q14) store_rounded_heads(y, group);
}
