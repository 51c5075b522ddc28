// Products of halves by which the host finds out whether a device's float matrix units hold fragments as `half_fragments.glsl` says, and whether a row's
// results depend on its place or on what is beside it, as attention must not have it. Further products, `rounds` of them onto each of SUMS fragments, take
// time: how much tells the rate of the units.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t y; // f32: [32, 8] and [32, 8] by lane, [16 turns, 16 columns], [16 turns, 16 rows], and [32, 8] by lane: the sums of all rounds
    uint rounds;
    uint padding[1];
} push;

const uint BLOCKS = 4;              // of 16 elements that are multiplied one after the other
const uint RIGHT_AT = 32 * BLOCKS;  // behind the left factors, each block of which has 16 rows of two uvec4
const uint SUMS = 8;
shared uvec4 staged[2 * RIGHT_AT];
#include "include/half_fragments.glsl"

// An element of either factor: from -8 to 8 times a power of two, exact as a half.
float content(uint seed, uint row, uint k) {
    uint hash = (seed * 977 + row * 131 + k + 1) * 2654435761u >> 12;
    return float(int(hash & 0x3ffu) - 512) / 64.0 * exp2(float(hash >> 10 & 7u) - 4.0);
}
// What is beside a row in a turn: other numbers, zeros, the largest half, infinities or what is no number.
uint beside(uint turn, uint row, uint k) {
    switch (turn % 5) {
    case 1: return 0;
    case 2: return 0x7bff;
    case 3: return 0x7c00;
    case 4: return 0x7e00;
    default: return half_bits(content(7 + turn, row, k));
    }
}

// Stages element k of row `row` of a factor, of the right one by column.
void stage(uint factor_at, uint row, uint k, uint bits) {
    uint at = factor_at + k / 16 * 32 + row * 2 + k % 16 / 8, shift = k % 2 * 16;
    staged[at][k % 8 / 2] = (staged[at][k % 8 / 2] & ~(0xffffu << shift)) | bits << shift;
}
// The sums of both staged factors.
Sums multiply() {
    barrier();
    Sums sums = NO_SUMS;
    UNROLL for (uint block = 0; block < BLOCKS; block++) {
        Left left;
        Right right;
        LOAD_LEFT(left, staged, block * 32, 2);
        LOAD_COLUMNS(right, RIGHT_AT + block * 32, 2);
        sums = MULTIPLY_ADD(left, right, sums);
    }
    barrier();
    return sums;
}
void store_by_lane(uint first, Sums sums) {
    if (flat_workgroup() != 0 || team_index() != 0) return;
    UNROLL for (uint i = 0; i < 8; i++) store_f32(push.y, (first + team_lane() * 8 + i) * 4, ELEMENT(sums, i));
}

void main() {
    if (row_count(push.state) == 0) return;
    uint row = lane_index() % 16;
    bool is_first = lane_index() < 16; // one thread stages a row, so that no two write a word
    // Element (r, c) of the sums is 16 * r + c: left rows (16 * r, 1, 0, ...), right columns (1, c, 0, ...).
    if (is_first) {
        for (uint k = 0; k < 16 * BLOCKS; k++) {
            stage(0, row, k, half_bits(k == 0 ? float(16 * row) : k == 1 ? 1.0 : 0.0));
            stage(RIGHT_AT, row, k, half_bits(k == 0 ? 1.0 : k == 1 ? float(row) : 0.0));
        }
    }
    store_by_lane(0, multiply());
    // The product of a left factor that the lanes make, element (r, c) of which is 16 * r + c as well, with the identity.
    if (is_first) {
        for (uint k = 0; k < 16; k++) stage(RIGHT_AT, row, k, half_bits(k == row ? 1.0 : 0.0));
    }
    barrier();
    uint words[4];
    UNROLL for (uint i = 0; i < 4; i++) {
        float first = float(16 * element_row(2 * i) + element_column(2 * i));
        words[i] = two_halves(first, first + 1.0);
    }
    Left made;
    MAKE_LEFT(made, words);
    Right one;
    LOAD_COLUMNS(one, RIGHT_AT, 2);
    store_by_lane(256, MULTIPLY_ADD(made, one, NO_SUMS));
    Sums totals[SUMS];
    UNROLL for (uint n = 0; n < SUMS; n++) totals[n] = NO_SUMS;
    [[dont_unroll]] for (uint round = 0; round < push.rounds; round++) {
        UNROLL for (uint n = 0; n < SUMS; n++) totals[n] = MULTIPLY_ADD(made, one, totals[n]);
    }
    UNROLL for (uint n = 1; n < SUMS; n++) {
        UNROLL for (uint i = 0; i < 8; i++) ELEMENT(totals[0], i) += ELEMENT(totals[n], i);
    }
    store_by_lane(1024, totals[0]);
    barrier();
    // In the first 16 turns row 0 of the content stands in each place, beside other rows; in the next 16 its column 0 stays where it is, beside other columns.
    for (uint turn = 0; turn < 32; turn++) {
        bool of_rows = turn < 16;
        uint place = of_rows ? turn : 0;
        if (is_first) {
            for (uint k = 0; k < 16 * BLOCKS; k++) {
                bool is_own = !of_rows || row == place;
                stage(0, row, k, is_own ? half_bits(content(1, of_rows ? 0 : row, k)) : beside(turn, row, k));
                stage(RIGHT_AT, row, k, of_rows || row == 0 ? half_bits(content(2, row, k)) : beside(turn, row, k));
            }
        }
        Sums sums = multiply();
        if (flat_workgroup() != 0 || team_index() != 0) continue;
        UNROLL for (uint i = 0; i < 8; i++) {
            uint r = element_row(i), c = element_column(i);
            if (of_rows ? r == place : c == 0) store_f32(push.y, (512 + turn * 16 + (of_rows ? c : r)) * 4, ELEMENT(sums, i));
        }
    }
}
