// The form of `attention_rows` for float matrix units, and caches of halves. Its numbers are those of the same form of `attention`.
//
// A workgroup takes a block of pairs of a row and one of the query heads that share a key and value head, by row: each of its teams of 32 lanes a fragment of
// 16 pairs, or two teams one together where heads are so large that the registers of one team have no room for their values. The rows of a lane are at positions
// one behind the other, and every tile of its keys and values is staged once for all of them. Where rows of several lanes meet in a block, the workgroup attends
// to the keys of one lane after the other, and keeps the results of that lane's rows alone. Where splits are joined, `y` holds the values of those joined so far.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/cache.glsl"

layout(constant_id = 2) const uint HEAD_SIZE = 64;      // 64, 128 or 256
layout(constant_id = 3) const uint HEADS = 1;           // query heads that share a key and value head
layout(constant_id = 4) const uint KV_HEADS = 1;        // key and value heads
layout(constant_id = 5) const float QUERY_SCALE = 1.0;  // log2(e) / sqrt(HEAD_SIZE)
layout(constant_id = 6) const uint LANE_PAGES = 0;      // that the table of a lane has room for; 0: there are no tables
layout(constant_id = 7) const uint WINDOW = 0;          // the keys that a row attends to; 0: all
layout(constant_id = 8) const uint SINKS = 0;           // 1: heads have sinks
layout(constant_id = 9) const uint RING_PAGES = 0;      // of a lane; 0: there are no rings
#include "include/cache_rows.glsl"
#include "include/window.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32, prepared
    uint64_t key_cache;   // [positions, KV_HEADS * HEAD_SIZE] f16
    uint64_t value_cache; // [positions, KV_HEADS * HEAD_SIZE] f16
    uint64_t y;           // [query_heads, HEAD_SIZE] f32
    uint64_t sinks;       // [query_heads] f32, read by SINKS
    uint rows;            // that there are operands for
    uint q_stride;        // bytes from one row of the step to the next, as y_stride
    uint y_stride;
} push;

#include "include/splits.glsl"
#define SHARERS (HEAD_SIZE > 128 ? 2 : 1)
#include "include/attention_tile.glsl"

const uint PAIRS = FRAGMENTS * 16;        // of a workgroup
const uint FRAGMENT_LANES = SHARERS * TEAM; // that have a fragment

// The rows of the block that are of the present lane: the first and the one behind the last, and their positions; the tile of the first key that any of them
// attends to; and where the lane's pages are found.
uint first_row, end_row, first_position, last_position, first_tile;
LanePages pages;

// Turns to the lane of the row before `end`, the last of its rows in the block: to those from row `first` on, which in a model of one lane are all rows of the
// block. Begins to load its first tile.
void turn_to_lane(uint first, uint end, uint64_t key_cache, uint64_t value_cache) {
    uint row = ROWS_OFFSET + (end - 1) * ROW_BYTES;
    uint rows = LANE_PAGES == 0 ? end - first : min(end - first, load_uniform_u32(push.state, row) + 1);
    first_row = end - rows;
    end_row = end;
    last_position = load_uniform_u32(push.state, row + 8);
    first_position = last_position + 1 - rows;
    pages = pages_of_lane(push.state, load_uniform_u32(push.state, row + 12));
    first_tile = first_attended(first_position) / TILE;
    look_up(first_tile, pages);
    load_tile(first_tile, last_position, key_cache, value_cache);
    look_up(min(first_tile + 1, last_position / TILE), pages);
}

// Bytes from the beginning of queries or results, [query_heads, HEAD_SIZE] f32 of each row with `stride` bytes between rows, to the head of a pair.
uint head_offset(uint pair, uint stride) { return pair / HEADS * stride + (gl_WorkGroupID.y * HEADS + pair % HEADS) * HEAD_SIZE * 4; }

// The highest maximum and the sum of the weights of the splits that are joined so far, for each of the lane's two rows.
float joined_maximum[2], joined_sum[2];

// Joins the present split to those before it. Behind the last one the sinks are joined, and the values are divided by the sum.
//
// Before the last split `y` has the values of a head in the order of the four lanes that hold them, so that each lane loads and stores four floats at once.
void join(uint first_pair, uint pairs, bool is_first, bool is_last) {
    uint first_column = own_sharer() * OWN_HEAD * 16, first_part = first_column / 4 + team_lane() % 4u;
    UNROLL for (uint r = 0; r < 2; r++) {
        uint pair = first_pair + element_row(r * 4);
        float highest = is_first ? maximum[r] : max(joined_maximum[r], maximum[r]);
        float before_kept = is_first ? 0.0 : kept(joined_maximum[r], highest), own_kept = is_first ? 1.0 : kept(maximum[r], highest);
        joined_maximum[r] = highest;
        joined_sum[r] = join_split(joined_sum[r], before_kept, ELEMENT(sums, r * 4), own_kept);
        bool is_own = pair >= first_row * HEADS && pair < end_row * HEADS;
        uint64_t head = push.y + uint64_t(head_offset(min(pair, pairs - 1), push.y_stride));
        float sink = SINKS != 0 && is_last ? sink_of_head(push.sinks, gl_WorkGroupID.y * HEADS + pair % HEADS) : 0.0;
        // All values of a row are loaded before the first is stored, since a compiler leaves a load behind a store that may be to the same place, and with it
        // the time that each load takes.
        vec4 before[OWN_HEAD];
        UNROLL for (uint n = 0; n < OWN_HEAD; n++) before[n] = is_first ? vec4(0.0) : load_vec4(head, (first_part + n * 4) * 16);
        if (is_last) {
            // The results of the last split go to places that other lanes of the head have loaded from, so that all lanes must have loaded.
            subgroupMemoryBarrierBuffer();
            subgroupBarrier();
        }
        if (!is_own) continue;
        UNROLL for (uint n = 0; n < OWN_HEAD; n++) {
            vec4 own = vec4(ELEMENT(values[n], r * 4), ELEMENT(values[n], r * 4 + 1), ELEMENT(values[n], r * 4 + 2), ELEMENT(values[n], r * 4 + 3));
            vec4 value = join_split(before[n], before_kept, own, own_kept);
            if (!is_last) {
                store_vec4(head, (first_part + n * 4) * 16, value);
                continue;
            }
            value = result_of_splits(value, joined_sum[r], joined_maximum[r], sink);
            store_uvec2(head, (first_column + n * 16 + element_column(0)) * 4, floatBitsToUint(value.xy));
            store_uvec2(head, (first_column + n * 16 + element_column(2)) * 4, floatBitsToUint(value.zw));
        }
    }
}

void main() {
    uint listed = min(row_count(push.state), push.rows), pairs = listed * HEADS;
    // The blocks with the most keys begin first.
    uint block = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * PAIRS, first_pair = block + own_fragment() * 16;
    if (block >= pairs) return;
    uint kv_head = gl_WorkGroupID.y;
    uint64_t key_cache = cache_of_head(push.key_cache, CACHE_F16, kv_head), value_cache = cache_of_head(push.value_cache, CACHE_F16, kv_head);

    turn_to_lane(block / HEADS, (min(block + PAIRS, pairs) - 1) / HEADS + 1, key_cache, value_cache);
    for (uint i = lane_index() % FRAGMENT_LANES; i < 16 * EIGHTS; i += FRAGMENT_LANES) {
        uint64_t head = push.q + uint64_t(head_offset(min(first_pair + i / EIGHTS, pairs - 1), push.q_stride));
        staged[(own_fragment() * 16 + i / EIGHTS) * STRIDE + i % EIGHTS] = query_halves(load_vec4(head, i % EIGHTS * 32u), load_vec4(head, i % EIGHTS * 32u + 16u));
    }
    barrier();
    load_query(own_fragment() * 16 * STRIDE);
    while (true) {
        uint tiles = last_position / TILE + 1;
        uvec2 positions; // of each of the lane's two rows; that of any of the rows, where a row is of another lane
        [[unroll]] for (uint r = 0; r < 2; r++) {
            positions[r] = first_position + clamp((first_pair + element_row(r * 4)) / HEADS, first_row, end_row - 1) - first_row;
            joined_sum[r] = 0.0;
        }

        begin_split();
        for (uint tile = first_tile; tile < tiles; tile++) {
            barrier();
            stage_tile();
            barrier();
            load_tile(min(tile + 1, tiles - 1), last_position, key_cache, value_cache);
            look_up(min(tile + 2, tiles - 1), pages);
            take_tile(tile * TILE, positions, tile * TILE < first_attended(last_position) || (tile + 1) * TILE > first_position + 1);
            if ((tile + 1) * TILE % SPLIT == 0 || tile + 1 == tiles) {
                join(first_pair, pairs, tile * TILE / SPLIT == first_tile * TILE / SPLIT, tile + 1 == tiles);
                begin_split();
            }
        }
        if (LANE_PAGES == 0 || first_row == block / HEADS) break;
        turn_to_lane(block / HEADS, first_row, key_cache, value_cache);
    }
}
