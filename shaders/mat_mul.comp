// Up to three matrices times the vectors of many rows of the step: y = W x or y + W x, plus a bias. Or the matrices of experts, times the vectors
// of the pairs that `route` has sorted: y = W[expert] x, plus a bias.
//
// A workgroup has some rows of one matrix, and a tile of vectors.
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
layout(constant_id = 3) const uint LISTED = 1;     // the most vectors of a tile of the list: a power of two
layout(constant_id = 4) const uint TILE = 1;       // the most vectors that a workgroup takes of them: a power of two
layout(constant_id = 5) const uint QUAD_ROWS = 1;
layout(constant_id = 6) const uint ACCUMULATE = 0; // 1: onto what y holds
layout(constant_id = 7) const uint FORMAT_0 = 0;
layout(constant_id = 8) const uint FORMAT_1 = 255;
layout(constant_id = 9) const uint FORMAT_2 = 255;
layout(constant_id = 10) const uint BIAS_BY_EXPERT = 0; // 1: the bias is [experts, rows]
const uint SPLITS = 1; // a workgroup takes whole rows
#ifndef IN_TURN
#define IN_TURN 0 // 1: one vector of a tile after the other
#endif
#define ACT ACT_Q14
#define SOURCE ROUNDED
#define VECTORS 1
#define MATRICES 1
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/tile_list.glsl"
#include "include/tile_vectors.glsl"
#include "include/tiles.glsl"
shared uint result_offsets[TILE];
#define RESULT_OFFSETS result_offsets
#include "include/tile_results.glsl"
#include "include/matrices.glsl"

Product stored; // whose results are stored
void store_results(uint vector, uint row, float first, float second) { store_product(stored, vector, row, first); }

void multiply(uint format, Product product, uint block, uint listed) {
    uvec2 own = begin_product(listed);
    uint count = own.y;
    if (count == 0) return;
    if (BIAS_BY_EXPERT == 1) product.bias += uint64_t(own.x * product.rows) * 4;
    place_products(product, count);
    product.weights += uint64_t(own.x * product.rows) * uint64_t(row_bytes(format, COLUMNS));
    uint64_t row[QUAD_RESULTS];
    [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
        uint own_row = min(quad_row(block * BLOCK_ROWS, r), product.rows - 1);
        row[r] = product.weights + uint64_t(own_row) * uint64_t(row_bytes(format, COLUMNS));
    }
    stored = product;
    multiply_tile(format, format, row, push.x, count, block * BLOCK_ROWS, product.rows);
}

void main() { multiply_matrices(); }
