// Chooses the experts of each row of a step of many rows, and sorts the pairs of a row and one of its slots by expert, so that the products that
// follow read an expert's weights once for all rows that have chosen it. A workgroup chooses for a row and lists its pairs; the last to finish cuts the lists
// into tiles, and writes how many workgroups the products have for them.
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
#include "include/choice.glsl"
#include "include/arrivals.glsl"
#include "include/tile_list.glsl"
#include "include/grids.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t logits;   // [EXPERTS] f32, the router's
    uint64_t ids;      // [slots] u32
    uint64_t weights;  // [slots] f32
    uint64_t pairs;    // [EXPERTS, rows] u32: the pairs of each expert, row * slots + slot, in any order
    uint64_t tiles;    // [rows, slots] Tile, of which the grids say how many are valid
    uint64_t grids;    // the Grids of the products
    uint64_t counters; // [1 + EXPERTS] u32, all 0 before and afterwards: of workgroups that have finished, then of the pairs of each expert
    uint slots;        // chosen experts, at most MAX_USED
    uint logits_stride; // bytes from one row of the step to the next, as the strides below
    uint ids_stride;
    uint weights_stride;
    uint gate_up_x;     // workgroups of `gate_up_mul` in x, for a part of a tile
    uint gate_up_y;     // workgroups of `gate_up_mul` in y, for a part of a tile
    uint gate_up_parts; // parts that `gate_up_mul` cuts a tile into
    uint down_x;        // workgroups of `mat_mul` in x, for a part of a tile
    uint down_y;        // workgroups of `mat_mul` in y, for a part of a tile
    uint down_parts;    // parts that `mat_mul` cuts a tile into
} push;

// How many rows the launch has workgroups for, and an expert's list has places for.
uint room() { return gl_NumWorkGroups.z; }

// Adds the pairs of the workgroup's row to the lists of its experts.
void list_pairs() {
    for (uint slot = thread_index(); slot < push.slots; slot += gl_WorkGroupSize.x) {
        uint expert = chosen_ids[slot], place = atomicAdd(SharedU32Ref(push.counters + uint64_t((1 + expert) * 4u)).v, 1u);
        store_u32(push.pairs, (expert * room() + place) * 4u, row_index() * push.slots + slot);
    }
}

// Writes how many workgroups the products have for so many tiles.
void store_grids(uint tiles) {
    Grid gate_up = Grid(push.grids + uint64_t(GATE_UP_GRID)), down = Grid(push.grids + uint64_t(DOWN_GRID));
    gate_up.x = push.gate_up_x;
    gate_up.y = push.gate_up_y;
    gate_up.z = tiles * push.gate_up_parts;
    down.x = push.down_x;
    down.y = push.down_y;
    down.z = tiles * push.down_parts;
}

// Lists the tiles of all experts, by the whole workgroup.
void list_tiles() {
    uint tiles_before = 0; // of the experts of earlier turns
    for (uint turn = 0; turn < EXPERTS; turn += gl_WorkGroupSize.x) {
        uint expert = turn + lane_index(), pairs = 0;
        if (expert < EXPERTS) {
            SharedU32Ref counter = SharedU32Ref(push.counters + uint64_t((1 + expert) * 4u));
            pairs = counter.v;
            counter.v = 0u;
        }
        uint own_tiles = (pairs + TILE - 1) / TILE, tiles_of_turn;
        uint first_tile = tiles_before + workgroup_sum_before(own_tiles, tiles_of_turn);
        for (uint t = 0; t < own_tiles; t++) {
            Tile tile = Tile(push.tiles + uint64_t((first_tile + t) * TILE_BYTES));
            tile.expert = expert;
            tile.first = expert * room() + t * TILE;
            tile.count = min(TILE, pairs - t * TILE);
        }
        tiles_before += tiles_of_turn;
    }
    if (thread_index() == 0) store_grids(tiles_before);
}

void main() {
    if (row_count(push.state) == 0) {
        // The products of a step that changes nothing are launched too. Here are the grids of an earlier step, which may have been one of more rows, or
        // what the memory held before all steps: with no tiles, the products have no workgroups.
        if (row_index() == 0 && thread_index() == 0) store_grids(0);
        return;
    }
    if (row_is_live(push.state)) {
        choose_experts(of_row(push.logits, push.logits_stride), push.slots);
        list_pairs();
        store_choice(of_row(push.ids, push.ids_stride), of_row(push.weights, push.weights_stride), push.slots);
    }
    if (last_to_arrive(push.counters, room())) list_tiles();
}
