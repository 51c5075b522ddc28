// Activations: f32, or rounded to integers of 14 bits as docs/arithmetic.md defines them. The Rust twin of the latter is `reference::Q14`.
//
// A row is cut into groups of 256 elements, which share a scale; the last is filled up with zeros. A subgroup rounds a group: each lane has
// LANE_PARTS parts of four elements, parts `lane`, `lane + SUBGROUP` and so on, of the 64 of the group.
//
// A rounded row with g groups is stored as
//   high   [g * 16 + 1] runs of 16 signed bytes: an integer is q = 128 * high + low
//   low    [g * 16 + 1] runs of 16 signed bytes
//   sums   [g * 16] i32: of the integers of each run
//   scales [g] f32, padded to 16 bytes
//   parts  [g * 4] runs of 16 signed bytes, if the runs stand in order: of the sums of a group's runs, see `store_run_parts`.
// Products read a quarter of a group, four runs, by one lane. So that neighbouring lanes read neighbouring words, run r of the high and of the
// low bytes stands at `place(g, r)`: the first runs of all quarters, then the second ones, and so on. Between the second and the third ones a
// place is left free: formats that pair runs 0, 1, 4 and 5 of a block take both at a time, and find them in different banks of shared memory.
#extension GL_EXT_spirv_intrinsics : require
#include "include/group_sums.glsl"

// Whether the runs of a rounded row stand in their order, as steps of many rows have them.
#ifndef IN_ORDER
#define IN_ORDER false
#endif

const uint ACT_F32 = 0, ACT_Q14 = 1; // what matrix products compute with
const uint RUN = 16;

// OpSDotKHR on words of four signed bytes.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot4(int a, int b, spirv_literal int packed_4x8);

// Groups of a row of `n` elements.
uint group_count(uint n) { return (n + 255u) / 256u; }
// These functions are the layout of a rounded row of so many groups. `place` is where run `run` stands among the high bytes, and among the low ones,
// counted in runs; with IN_ORDER run r stands at r. `plane_runs` is how many runs each of the two has room for. The others count bytes from the row's
// beginning: to its low bytes, to the sums of its runs, to its scales, to the parts of the sums, and to its end.
uint place(uint groups, uint run) { return IN_ORDER ? run : (run % 4u) * groups * 4u + run / 4u + (run % 4u) / 2u; }
uint plane_runs(uint groups) { return groups * 16u + 1u; }
uint low_bytes(uint groups) { return plane_runs(groups) * 16u; }
uint run_sums(uint groups) { return plane_runs(groups) * 32u; }
uint group_scales(uint groups) { return run_sums(groups) + groups * 64u; }
uint run_parts(uint groups) { return group_scales(groups) + pad16(groups * 4u); }
uint rounded_bytes(uint groups) { return run_parts(groups) + groups * 64u; }

// How a group is rounded.
struct Rounding {
    float scale;
    float inverse; // of the scale
    bool usable;   // else all integers are 0
};

// 1 / x by an estimate and four steps of Newton's method; a division may differ from one device to another. Loops around exact arithmetic are
// not marked to be unrolled where their number of rounds is a constant: the optimiser of SPIR-V forgets `precise` in all copies but the first.
float reciprocal(float x) {
    precise float y = uintBitsToFloat(0x7ef311c7u - floatBitsToUint(x));
    for (uint i = 0; i < 4; i++) {
        precise float product = x * y;
        precise float rest = 2.0 - product;
        y = y * rest;
    }
    return y;
}

// `highest` has the bits of the group's largest magnitude: as integers, magnitudes compare with NaN above infinity.
Rounding rounding(uint highest) {
    float largest = uintBitsToFloat(highest);
    bool finite = highest < 0x7f800000u, usable = finite && highest >= 0x1f800000u; // 2^-64
    precise float scale = largest * uintBitsToFloat(0x39000400u);                   // 1 / 8191
    return Rounding(finite ? (usable ? scale : 0.0) : largest, reciprocal(usable ? scale : 1.0), usable);
}

// The bits of the largest magnitude of a group.
uint group_highest(vec4 parts[LANE_PARTS]) {
    uint highest = 0u;
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
        uvec4 bits = floatBitsToUint(parts[n]) & 0x7fffffffu;
        highest = max(highest, max(max(bits.x, bits.y), max(bits.z, bits.w)));
    }
    return subgroupMax(highest);
}

// The sum of the squares of a part's four elements, added one after the other in the order of docs/arithmetic.md.
float part_squares(vec4 x) {
    precise vec4 square = x * x;
    precise float sum = square.x + square.y;
    sum = sum + square.z;
    sum = sum + square.w;
    return sum;
}

// 1 / root mean square of a row of so many elements, from the sum of its squares.
float root_mean_scale(float squares, uint columns, float epsilon) {
    precise float mean = squares * (1.0 / float(columns));
    mean = mean + epsilon;
    return 1.0 / sqrt(mean);
}

// Four rounded elements, and the sum of the sixteen of their run, of which four neighbouring lanes have parts.
struct RoundedPart {
    uint high;
    uint low;
    int sum;
};
RoundedPart round_part(vec4 v, Rounding by) {
    // The integer plus 64 * 129 stands in the low bits of this sum, whose unit in the last place is 1: rounded to the nearest, ties to even.
    precise vec4 scaled = v * by.inverse;
    precise vec4 shifted = scaled + (12582912.0 + 8256.0);
    uvec4 q = by.usable ? floatBitsToUint(shifted) : uvec4(8256u);
    uvec2 pairs = (q.xy & 0xffffu) | (q.zw << 16);
    uvec2 high = (pairs >> 7) & 0x00ff00ffu, low = pairs & 0x007f007fu;
    // Bytes that are 64 too large become signed ones.
    RoundedPart part;
    part.high = ((high.x | (high.y << 8)) + 0x40404040u) ^ 0x80808080u;
    part.low = ((low.x | (low.y << 8)) + 0x40404040u) ^ 0x80808080u;
    part.sum = 128 * dot4(int(part.high), 0x01010101, 0) + dot4(int(part.low), 0x01010101, 0);
    part.sum += subgroupShuffleXor(part.sum, 1);
    part.sum += subgroupShuffleXor(part.sum, 2);
    return part;
}

// Four numbers from -128 to 127, as bytes.
uint four_bytes(ivec4 x) {
    uvec4 bytes = uvec4(x) & 0xffu;
    return bytes.x | (bytes.y << 8) | (bytes.z << 16) | (bytes.w << 24);
}
// Stores the sums of the runs of a group as products of bytes take them: a sum of 18 bits is 512 * high + low, and each of the two is x + 2 * y. First
// come the x of the high parts, then their y, then both of the low ones. `sums` has those of the runs that the lane's parts belong to.
void store_run_parts(uint64_t y, uint groups, uint group, int sums[LANE_PARTS]) {
    [[unroll]] for (uint first = 0; first < 16; first += SUBGROUP) {
        // A lane stores a word: one of the four parts, of the four runs of a quarter.
        uint word = first + gl_SubgroupInvocationID, part = word / 4u, quarter = word % 4u;
        ivec4 of_quarter;
        [[unroll]] for (uint run = 0; run < 4; run++) {
            uint at = (quarter * 4u + run) * 4u;
            [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
                int sum = subgroupShuffle(sums[n], at % SUBGROUP);
                if (at / SUBGROUP == n) of_quarter[run] = sum;
            }
        }
        ivec4 high = (of_quarter + 256) >> 9, number = part < 2u ? high : of_quarter - (high << 9), half_number = min(number >> 1, ivec4(127));
        if (word < 16u) store_u32(y, run_parts(groups) + group * 64u + word * 4u, four_bytes(part % 2u == 0u ? number - 2 * half_number : half_number));
    }
}

// Stores group `group` of a rounded row of `groups` groups. The whole subgroup takes part.
void store_rounded(uint64_t y, uint groups, uint group, vec4 parts[LANE_PARTS]) {
    Rounding by = rounding(group_highest(parts));
    int sums[LANE_PARTS];
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
        RoundedPart part = round_part(parts[n], by);
        sums[n] = part.sum;
        uint at = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID, run = at / 4u;
        uint offset = place(groups, run) * 16u + at % 4u * 4u;
        store_u32(y, offset, part.high);
        store_u32(y, low_bytes(groups) + offset, part.low);
        if (at % 4u == 0u) store_u32(y, run_sums(groups) + run * 4u, uint(part.sum));
    }
    if (gl_SubgroupInvocationID == 0) store_f32(y, group_scales(groups) + group * 4u, by.scale);
    if (IN_ORDER) store_run_parts(y, groups, group, sums);
}
