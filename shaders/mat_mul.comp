// Up to three matrices times the vectors of many rows of the step: y = W x, W x + bias, or y + W x. Or the matrices of experts, times the vectors
// of the pairs that `route` has sorted: y = W[expert] x.
//
// A workgroup has some rows of one matrix, and a tile of vectors.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint TILE = 1;       // the most vectors of a tile: a power of two
layout(constant_id = 4) const uint QUAD_ROWS = 1;
layout(constant_id = 5) const uint ACCUMULATE = 0; // 1: onto what y holds
layout(constant_id = 6) const uint FORMAT_0 = 0;
layout(constant_id = 7) const uint FORMAT_1 = 255;
layout(constant_id = 8) const uint FORMAT_2 = 255;
#define ACT ACT_Q14
#define SOURCE ROUNDED
#define VECTORS 1
#define MATRICES 1
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/tile_list.glsl"
#include "include/tiles.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;         // [slots, COLUMNS] rounded
    uint64_t weights_0; // [experts, rows, COLUMNS] in FORMAT_0, rows in planes
    uint64_t weights_1;
    uint64_t weights_2;
    uint64_t bias_0;    // [rows] f32, or 0 for none
    uint64_t bias_1;
    uint64_t bias_2;
    uint64_t y_0;       // [slots, rows] f32
    uint64_t y_1_or_pairs; // of a second matrix; with experts, which have one, [rows, slots] u32
    uint64_t y_2_or_tiles; // of a third matrix; with experts the list of tiles
    uint rows_0;
    uint rows_1;
    uint rows_2;
    uint slots;         // with experts: of each row. Otherwise 0
    uint x_stride;      // bytes from one row of the step to the next, as the strides below
    uint y_stride_0;
    uint y_stride_1;
    uint y_stride_2;
} push;

// One matrix of the launch.
struct Product {
    uint64_t weights;
    uint64_t bias;
    uint64_t y;
    uint y_stride;
    uint rows;
};

uint blocks(uint rows) { return (rows + WORKGROUP_ROWS - 1) / WORKGROUP_ROWS; }

// Rows [WORKGROUP_ROWS * block, WORKGROUP_ROWS * (block + 1)) of a matrix.
void multiply(uint format, Product product, uint block, uint listed) {
    uint tile = gl_WorkGroupID.z, slots = max(push.slots, 1);
    TileOperand x = TileOperand(push.x, push.x_stride, rounded_bytes(GROUPS));
    TileOperand y = TileOperand(product.y, product.y_stride, product.rows * 4u);
    bool experts = push.slots > 0;
    uvec2 own = begin_tile(tile, listed, experts ? push.y_2_or_tiles : uint64_t(0), push.y_1_or_pairs, slots, x, y);
    uint count = own.y;
    if (count == 0) return;
    product.weights += uint64_t(own.x * product.rows) * uint64_t(row_bytes(format, COLUMNS));
    uint64_t row[QUAD_RESULTS];
    [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
        uint own_row = min(quad_row(block * WORKGROUP_ROWS, r), product.rows - 1);
        row[r] = product.weights + uint64_t(own_row) * uint64_t(row_bytes(format, COLUMNS));
    }
    multiply_tile(format, format, row, push.x, count);
    [[unroll]] for (uint set = 0; set < SETS; set++) {
        if (!owns_vector(set, count)) continue;
        uint64_t at = product.y + uint64_t(tile_offsets[own_vector(set)].y);
        [[unroll]] for (uint r = 0; r < QUAD_ROWS; r++) {
            uint own_row = quad_row(block * WORKGROUP_ROWS, r);
            if (own_row >= product.rows) continue;
            precise float sum = tile_results[set * QUAD_RESULTS + r];
            if (product.bias != 0) sum = sum + load_f32(product.bias, own_row * 4u);
            if (ACCUMULATE == 1) sum = load_f32(at, own_row * 4u) + sum;
            store_f32(at, own_row * 4u, sum);
        }
    }
}

void main() {
    uint listed = row_count(push.state), block = flat_workgroup();
    uint blocks_0 = blocks(push.rows_0), blocks_1 = blocks(push.rows_1), blocks_2 = blocks(push.rows_2);
    uint format = FORMAT_0;
    Product product = Product(push.weights_0, push.bias_0, push.y_0, push.y_stride_0, push.rows_0);
    if (FORMAT_1 != NO_FORMAT && block >= blocks_0) {
        format = FORMAT_1;
        product = Product(push.weights_1, push.bias_1, push.y_1_or_pairs, push.y_stride_1, push.rows_1);
        block -= blocks_0;
        if (FORMAT_2 != NO_FORMAT && block >= blocks_1) {
            format = FORMAT_2;
            product = Product(push.weights_2, push.bias_2, push.y_2_or_tiles, push.y_stride_2, push.rows_2);
            block -= blocks_1;
        }
    }
    if (block * WORKGROUP_ROWS >= product.rows) return;
    // Matrices of one format share its code: what a dispatch must fetch of instructions counts.
    if (format == FORMAT_0) multiply(FORMAT_0, product, block, listed);
    else if (FORMAT_1 != NO_FORMAT && FORMAT_1 != FORMAT_0 && format == FORMAT_1) multiply(FORMAT_1, product, block, listed);
    else if (FORMAT_2 != NO_FORMAT && FORMAT_2 != FORMAT_0 && FORMAT_2 != FORMAT_1) multiply(FORMAT_2, product, block, listed);
}
