// The form of `mat_mul` for integer matrix units. Its numbers are those of the other form.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#define IN_ORDER true
#include "include/activations.glsl"

layout(constant_id = 2) const uint COLUMNS = 256;
layout(constant_id = 3) const uint LISTED = 16;    // the most vectors of a tile of the list: a power of two
layout(constant_id = 4) const uint TILE = 16;      // the most vectors that a workgroup takes of them: a power of two
layout(constant_id = 5) const uint DEPTH = 32;
layout(constant_id = 6) const uint STAGE_RUNS = 8; // runs of a group that are in shared memory at a time: 4, 8 or 16
layout(constant_id = 7) const uint ROW_SUBGROUPS = 1;
layout(constant_id = 8) const uint ROW_FRAGMENTS = 1;
layout(constant_id = 9) const uint RAGGED = 0;  // 1: many tiles have fewer vectors than there is room for
layout(constant_id = 10) const uint GAPS = 1;        // 1: parts of a format have 16 elements, and a product takes 32 bytes
layout(constant_id = 11) const uint PART_SCALES = 2; // words with scales of 32 weights, at most: 1 or 2
layout(constant_id = 12) const uint MINIMUMS = 1;    // 1: a format with sub-blocks has minimums
layout(constant_id = 13) const uint CHUNK_SUMS = 1;  // 1: a format with a scale for 32 has an offset
layout(constant_id = 14) const uint ACCUMULATE = 0; // 1: onto what y holds
layout(constant_id = 15) const uint FORMAT_0 = 8;
layout(constant_id = 16) const uint FORMAT_1 = 255;
layout(constant_id = 17) const uint FORMAT_2 = 255;
layout(constant_id = 18) const uint BIAS_BY_EXPERT = 0; // 1: the bias is [experts, rows]
layout(constant_id = 19) const uint SPLITS = 1;         // workgroups that share the groups of a block, without experts
#define ACT ACT_Q14
#define SOURCE ROUNDED
#define VECTORS 1
#define MATRICES 1
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/tile_list.glsl"
#include "include/tile_vectors.glsl"
#include "include/blocks.glsl"
#include "include/tile_results.glsl"
#include "include/matrices.glsl"

void multiply(uint format, Product product, uint block, uint listed) {
    uvec2 own = begin_product(listed);
    uint count = own.y, first = block * BLOCK_ROWS;
    if (count == 0) return;
    if (BIAS_BY_EXPERT == 1) product.bias += uint64_t(own.x * product.rows) * 4;
    product.weights += uint64_t(own.x * product.rows + first) * uint64_t(row_bytes(format, COLUMNS));
    begin_values(push.group_values);
    if (!multiply_block(format, uint64_t[1](product.weights), product.rows - first, push.x, count)) return;
    barrier();
    place_products(product, count);
    const uint QUADS = BLOCK_ROWS / 4;
    bool has_quads = has_result_quads(product);
    for (uint turn = 0; turn < SHOWN_TURNS; turn++) {
        show_results(turn);
        for (uint n = thread_index(); n < SHOWN_VECTORS * QUADS; n += gl_WorkGroupSize.x) {
            uint vector = turn * SHOWN_VECTORS + n / QUADS, row = n % QUADS * 4;
            if (vector >= count) continue;
            vec4 results = shown_results(vector, row);
            if (has_quads) {
                if (first + row < product.rows) store_product_quad(product, vector, first + row, results);
                continue;
            }
            for (uint i = 0; i < 4 && first + row + i < product.rows; i++) store_product(product, vector, first + row + i, results[i]);
        }
    }
}

void main() { multiply_matrices(); }
