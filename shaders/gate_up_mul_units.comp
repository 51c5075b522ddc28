// The form of `gate_up_mul` for integer matrix units, and matrices of one format. Its numbers are those of the other form.
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
layout(constant_id = 3) const uint LISTED = 16;   // the most vectors of a tile of the list: a power of two
layout(constant_id = 4) const uint TILE = 16;     // the most vectors that a workgroup takes of them: a power of two
layout(constant_id = 5) const uint DEPTH = 32;
layout(constant_id = 6) const uint STAGE_RUNS = 8; // runs of a group that are in shared memory at a time: 4, 8 or 16
layout(constant_id = 7) const uint ROW_SUBGROUPS = 1;
layout(constant_id = 8) const uint ROW_FRAGMENTS = 1;
layout(constant_id = 9) const uint RAGGED = 0;  // 1: many tiles have fewer vectors than there is room for
layout(constant_id = 10) const uint GAPS = 1;        // 1: parts of a format have 16 elements, and a product takes 32 bytes
layout(constant_id = 11) const uint PART_SCALES = 2; // words with scales of 32 weights, at most: 1 or 2
layout(constant_id = 12) const uint MINIMUMS = 1;    // 1: a format with sub-blocks has minimums
layout(constant_id = 13) const uint CHUNK_SUMS = 1;  // 1: a format with a scale for 32 has an offset
layout(constant_id = 14) const uint FORMAT = 8;  // of both matrices
layout(constant_id = 15) const uint ACTIVATION = 0;
layout(constant_id = 16) const uint BIASES = 0; // 1: they are added to the products
layout(constant_id = 17) const uint SPLITS = 1; // workgroups that share the groups of a block, without experts
#define ACT ACT_Q14
#define SOURCE ROUNDED
#define VECTORS 1
#define MATRICES 2
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/tile_list.glsl"
#include "include/tile_vectors.glsl"
#include "include/blocks.glsl"
#include "include/tile_results.glsl"
#include "include/swiglu.glsl"
#include "include/gate_and_up.glsl"

const uint PAIR_ROWS = BLOCK_ROWS / 2; // of each of the two matrices

void main() {
    uint first = flat_workgroup() / SPLITS * PAIR_ROWS;
    if (first >= push.rows) return;
    uvec2 own = begin_pair();
    uint count = own.y;
    if (count == 0) return;
    uint64_t offset = uint64_t(own.x * push.rows + first) * uint64_t(row_bytes(FORMAT, COLUMNS));
    begin_values(push.group_values);
    if (!multiply_block(FORMAT, uint64_t[2](push.gate + offset, push.up + offset), push.rows - first, push.x, count)) return;
    barrier();
    place_gated(count);
    const uint QUADS = PAIR_ROWS / 4;
    bool has_quads = has_gated_quads();
    for (uint turn = 0; turn < SHOWN_TURNS; turn++) {
        show_results(turn);
        for (uint n = thread_index(); n < SHOWN_VECTORS * QUADS; n += gl_WorkGroupSize.x) {
            uint vector = turn * SHOWN_VECTORS + n / QUADS, row = n % QUADS * 4;
            if (vector >= count) continue;
            vec4 gates = shown_results(vector, row), ups = shown_results(vector, PAIR_ROWS + row);
            if (has_quads) {
                if (first + row < push.rows) store_gated_quad(vector, first + row, gates, ups);
                continue;
            }
            for (uint i = 0; i < 4 && first + row + i < push.rows; i++) store_gated(vector, first + row + i, gates[i], ups[i]);
        }
    }
}
