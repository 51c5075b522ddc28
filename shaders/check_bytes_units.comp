// Products of signed bytes whose results are known, by which the host finds out whether a device's integer matrix units give what the products of
// `blocks.glsl` take them to give: exact sums, a number of each row or of each vector where they are loaded with a stride of 0, and results that lie where
// they are stored. Further products, `rounds` of them onto each of SUMS fragments, take time: how much tells the rate of the units.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"

layout(constant_id = 2) const uint DEPTH = 32; // bytes of a row that one product takes: 16 or 32

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t y;  // [3, 16 vectors, 16 rows] f32: scaled products, pairs of numbers, sums of all rounds
    uint rounds;
    uint padding[1];
} push;

const uint ROW = DEPTH / 16;       // of bytes, in uvec4
const uint VECTORS_AT = 16 * ROW;  // behind the rows of weights
const uint RESULTS_AT = 32 * ROW;
const uint SUMS = 8;
shared uvec4 staged[RESULTS_AT + 3 * 64];
shared uint row_numbers[16];
shared float row_floats[16], vector_floats[16];
int byte_of(uvec4 word, uint k) { return bitfieldExtract(int(word[k / 4]), int(8 * (k % 4)), 8); }
int dot16(uvec4 a, uvec4 b) {
    int sum = 0;
    for (uint k = 0; k < 16; k++) sum += byte_of(a, k) * byte_of(b, k);
    return sum;
}
#include "include/fragments.glsl"

// Element k of row `row` of the weights, from -8 to 7, and of vector `row`, from -128 to 127.
int weight_byte(uint row, uint k) { return int((row * 7 + k * 13 + row * k) % 16) - 8; }
int vector_byte(uint row, uint k) { return int((row * 37 + k * 101 + row * k) % 256) - 128; }

void main() {
    if (row_count(push.state) == 0) return;
    for (uint i = thread_index(); i < RESULTS_AT; i += workgroup_size()) {
        uint row = i % VECTORS_AT / ROW, first = i % ROW * 16;
        uvec4 word = uvec4(0);
        for (uint k = 0; k < 16; k++) {
            int value = i < VECTORS_AT ? weight_byte(row, first + k) : vector_byte(row, first + k);
            word[k / 4] |= (uint(value) & 0xffu) << (8 * (k % 4));
        }
        staged[i] = word;
    }
    for (uint i = thread_index(); i < 16; i += workgroup_size()) {
        row_numbers[i] = 3 * i + 1;
        row_floats[i] = float(i + 1);
        vector_floats[i] = float(100 - i);
    }
    barrier();
    WeightBytes weights;
    VectorBytes vectors;
    LOAD_WEIGHTS(weights, 0, ROW);
    LOAD_VECTORS(vectors, VECTORS_AT, ROW);
    Integers product = MULTIPLY_ADD(weights, vectors, NO_INTEGERS), numbers;
    LOAD_INTEGERS_OF_ROWS(numbers, row_numbers, 0);
    Integers scaled = ADD_PRODUCT(numbers, numbers, product);
    Floats of_rows, of_vectors;
    LOAD_OF_ROWS(of_rows, row_floats, 0);
    LOAD_OF_VECTORS(of_vectors, vector_floats, 0);
    Integers sums[SUMS];
    UNROLL for (uint n = 0; n < SUMS; n++) sums[n] = NO_INTEGERS;
    [[dont_unroll]] for (uint round = 0; round < push.rounds; round++) {
        UNROLL for (uint n = 0; n < SUMS; n++) sums[n] = MULTIPLY_ADD(weights, vectors, sums[n]);
    }
    Integers total = sums[0];
    UNROLL for (uint n = 1; n < SUMS; n++) total = JOINED(sums[n], 1, total);
    if (flat_subgroup() != 0) return;
    STORE_RESULTS(FLOATS_OF(scaled), RESULTS_AT, 4);
    STORE_RESULTS(PRODUCT(of_rows, of_vectors), RESULTS_AT + 64, 4);
    STORE_RESULTS(FLOATS_OF(total), RESULTS_AT + 128, 4);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    for (uint i = gl_SubgroupInvocationID; i < 3 * 64; i += SUBGROUP) store_vec4(push.y, i * 16, uintBitsToFloat(staged[RESULTS_AT + i]));
}
