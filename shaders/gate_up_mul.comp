// The first half of a feed-forward layer for many rows of the step: y = activated(G x, U x), such as silu(G x) * (U x), for the pairs that `route` has
// sorted by expert, or for all rows of a dense layer. A workgroup has some rows of a pair of matrices, and a tile of vectors.
// (Shazeer: GLU Variants Improve Transformer, 2020.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#define IN_ORDER true
#include "include/activations.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint LISTED = 1;    // the most vectors of a tile of the list: a power of two
layout(constant_id = 4) const uint TILE = 1;      // the most vectors that a workgroup takes of them: a power of two
layout(constant_id = 5) const uint QUAD_ROWS = 1; // of each of the two matrices
layout(constant_id = 6) const uint GATE_FORMAT = 0;
layout(constant_id = 7) const uint UP_FORMAT = 0;
layout(constant_id = 8) const uint ACTIVATION = 0;
layout(constant_id = 9) const uint BIASES = 0;    // 1: they are added to the products
#ifndef IN_TURN
#define IN_TURN 0 // 1: one vector of a tile after the other
#endif
#define ACT ACT_Q14
#define SOURCE ROUNDED
#define VECTORS 1
#define MATRICES 2
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/tile_list.glsl"
#include "include/tile_vectors.glsl"
#include "include/tiles.glsl"
shared uint result_offsets[TILE];
#define RESULT_OFFSETS result_offsets
#include "include/tile_results.glsl"
#include "include/swiglu.glsl"
#include "include/gate_and_up.glsl"

void store_results(uint vector, uint row, float first, float second) { store_gated(vector, row, first, second); }

void main() {
    uint first_row = flat_workgroup() * BLOCK_ROWS;
    if (first_row >= push.rows) return;
    uvec2 own = begin_pair();
    uint count = own.y;
    if (count == 0) return;
    place_gated(count);
    uint gate_bytes = row_bytes(GATE_FORMAT, COLUMNS), up_bytes = row_bytes(UP_FORMAT, COLUMNS);
    uint64_t gate = push.gate + uint64_t(own.x * push.rows) * uint64_t(gate_bytes), up = push.up + uint64_t(own.x * push.rows) * uint64_t(up_bytes);
    uint64_t row[QUAD_RESULTS];
    [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
        uint own_row = min(quad_row(first_row, r), push.rows - 1);
        row[r] = gate + uint64_t(own_row) * uint64_t(gate_bytes);
        row[QUAD_ROWS + r] = up + uint64_t(own_row) * uint64_t(up_bytes);
    }
    multiply_tile(GATE_FORMAT, UP_FORMAT, row, push.x, count, first_row, push.rows);
}
