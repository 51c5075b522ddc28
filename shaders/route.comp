// Chooses the experts of each row of a step of many rows, and sorts the pairs of a row and one of its slots by expert, so that the products that
// follow read an expert's weights once for all rows that have chosen it. A workgroup chooses for a row; the last to finish sorts.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/integers.glsl"
#include "include/order.glsl"

layout(constant_id = 2) const uint EXPERTS = 1; // their number
layout(constant_id = 3) const uint WEIGHTING = 0;
layout(constant_id = 4) const uint TILE = 1;    // the most pairs of a tile
#define STORE_ID store_shared_u32 // the last workgroup reads the ids of all rows
#include "include/choice.glsl"
#include "include/arrivals.glsl"
#include "include/tile_list.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t logits;  // [EXPERTS] f32, the router's
    uint64_t ids;     // [slots] u32
    uint64_t weights; // [slots] f32
    uint64_t pairs;   // [rows, slots] u32: row * slots + slot of each pair, by expert
    uint64_t tiles;   // [rows, slots] Tile, of which as many are valid as the first one says
    uint64_t counter; // u32, 0
    uint slots;       // chosen experts, at most MAX_USED
    uint logits_stride; // bytes from one row of the step to the next, as the strides below
    uint ids_stride;
    uint weights_stride;
} push;

shared uint pair_counts[EXPERTS];  // of each expert; then the place of its next pair
shared uint first_pairs[EXPERTS];  // the place of each expert's first pair

// Pairs of a thread whose experts are loaded before the first is used.
const uint AT_A_TIME = 8;
uint experts[AT_A_TIME];
uint own_pair(uint first, uint n) { return first + n * gl_WorkGroupSize.x + thread_index(); }
// Loads the experts of the thread's next pairs, behind the first `first` of `count`.
void load_experts(uint first, uint count) {
    [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) {
        uint pair = min(own_pair(first, n), count - 1), row = pair / push.slots;
        experts[n] = min(load_u32(push.ids, row * push.ids_stride + (pair - row * push.slots) * 4u), EXPERTS - 1);
    }
}

// Sorts the pairs of the first `rows` rows, by the whole workgroup.
void sort_pairs(uint rows) {
    for (uint e = thread_index(); e < EXPERTS; e += gl_WorkGroupSize.x) pair_counts[e] = 0;
    barrier();
    uint count = rows * push.slots;
    for (uint first = 0; first < count; first += AT_A_TIME * gl_WorkGroupSize.x) {
        load_experts(first, count);
        [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) {
            if (own_pair(first, n) < count) atomicAdd(pair_counts[experts[n]], 1u);
        }
    }
    barrier();
    uint pairs_before = 0, tiles_before = 0; // of the experts of earlier turns
    for (uint turn = 0; turn < EXPERTS; turn += gl_WorkGroupSize.x) {
        uint e = turn + lane_index();
        uint own = e < EXPERTS ? pair_counts[e] : 0, own_tiles = (own + TILE - 1) / TILE;
        uint pairs_of_turn, tiles_of_turn;
        uint first = pairs_before + workgroup_sum_before(own, pairs_of_turn);
        uint first_tile = tiles_before + workgroup_sum_before(own_tiles, tiles_of_turn);
        for (uint t = 0; t < own_tiles; t++) {
            Tile tile = Tile(push.tiles + uint64_t((first_tile + t) * TILE_BYTES));
            tile.expert = e;
            tile.first = first + t * TILE;
            tile.count = min(TILE, own - t * TILE);
        }
        if (e < EXPERTS) {
            first_pairs[e] = first;
            pair_counts[e] = 0;
        }
        pairs_before += pairs_of_turn;
        tiles_before += tiles_of_turn;
    }
    if (thread_index() == 0) Tile(push.tiles).tiles = tiles_before;
    barrier();
    for (uint first = 0; first < count; first += AT_A_TIME * gl_WorkGroupSize.x) {
        load_experts(first, count);
        [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) {
            uint pair = own_pair(first, n), e = experts[n];
            if (pair < count) store_u32(push.pairs, (first_pairs[e] + atomicAdd(pair_counts[e], 1u)) * 4u, pair);
        }
    }
}

void main() {
    uint rows = min(row_count(push.state), gl_NumWorkGroups.z);
    if (rows == 0) return;
    if (row_is_live(push.state)) {
        choose_experts(of_row(push.logits, push.logits_stride), push.slots);
        store_choice(of_row(push.ids, push.ids_stride), of_row(push.weights, push.weights_stride), push.slots);
    }
    if (last_to_arrive(push.counter, gl_NumWorkGroups.z)) sort_pairs(rows);
}
