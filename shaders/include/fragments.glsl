// Fragments: matrices of 16 x 16 that a subgroup holds together, and products of signed bytes that are added to them. With MATRIX_UNITS defined they
// are cooperative matrices, which integer matrix units multiply. Without it they are arrays and dot products, which give the same numbers: the kernels
// are tested so where there are no such units.
//
// Whoever includes this has SUBGROUP, `dot16`, and the specialisation constant DEPTH, the bytes of a row of weights that one product takes: 16 or 32; and
// defines `staged`, an array of uvec4 in shared memory. Places and strides in it count uvec4. All lanes of a subgroup take part in everything.
#ifdef MATRIX_UNITS
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require

// Loops over what a lane holds: fragments are not to be indexed by variables.
#define UNROLL [[unroll]]
#define Integers coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define Floats coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define WeightBytes coopmat<int8_t, gl_ScopeSubgroup, 16, DEPTH, gl_MatrixUseA>
#define VectorBytes coopmat<int8_t, gl_ScopeSubgroup, DEPTH, 16, gl_MatrixUseB>

#define NO_INTEGERS Integers(0)
#define FLOATS(value) Floats(value)
// The bytes of 16 rows of weights, and of 16 vectors; `stride` leads from one to the next.
#define LOAD_WEIGHTS(bytes, at, stride) coopMatLoad(bytes, staged, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_VECTORS(bytes, at, stride) coopMatLoad(bytes, staged, at, stride, gl_CooperativeMatrixLayoutColumnMajor)
// A number for each row, and one for each vector, of `numbers`, an array of floats in shared memory; or of `words`, an array that has integers or the bits
// of floats.
#define LOAD_OF_ROWS(floats, numbers, at) coopMatLoad(floats, numbers, at, 0, gl_CooperativeMatrixLayoutColumnMajor)
#define LOAD_INTEGERS_OF_ROWS(integers, words, at) coopMatLoad(integers, words, at, 0, gl_CooperativeMatrixLayoutColumnMajor)
#define LOAD_BITS_OF_ROWS(floats, words, at) coopMatLoad(floats, words, at, 0, gl_CooperativeMatrixLayoutColumnMajor)
#define LOAD_OF_VECTORS(floats, numbers, at) coopMatLoad(floats, numbers, at, 0, gl_CooperativeMatrixLayoutRowMajor)
// The results of 16 vectors, of one behind those of the other.
#define STORE_RESULTS(floats, at, stride) coopMatStore(floats, staged, at, stride, gl_CooperativeMatrixLayoutColumnMajor)
// The same to memory, for other workgroups: `at` and `stride` count floats from `address`.
#define STORE_SHARED(floats, address, at, stride) coopMatStore(floats, SharedFloatsRef(address).of, at, stride, gl_CooperativeMatrixLayoutColumnMajor)
#define MULTIPLY_ADD(weights, vectors, sum) coopMatMulAdd(weights, vectors, sum)
// sum + a * b, of integers.
#define ADD_PRODUCT(sum, a, b) ((sum) + (a) * (b))
// factor * high + low.
#define JOINED(high, factor, low) ((high) * (factor) + (low))
// 128 * high + low.
#define JOINED_FLOATS(high, low) ((high) * 128.0 + (low))
#define FLOATS_OF(integers) Floats(integers)
#define PRODUCT(a, b) ((a) * (b))
#define SUM(a, b) ((a) + (b))
#define DIFFERENCE(a, b) ((a) - (b))
// Makes those floats 0 that count as 0 with scales of MXFP4.
#define CLEAR_NEGLIGIBLE(floats) UNROLL for (uint i_ = 0; i_ < floats.length(); i_++) floats[i_] = negligible(floats[i_]) ? 0.0 : floats[i_]
#else
// A CPU's compiler takes long for what is unrolled.
#define UNROLL [[dont_unroll]]
const uint LANE_ELEMENTS = 256 / SUBGROUP; // of a fragment, by each lane
// The narrowest subgroups have 8 lanes, whose elements fill these arrays. Wider ones use their beginnings.
struct Integers { int of[32]; };
struct Floats { float of[32]; };
#define WeightBytes uvec2
#define VectorBytes uvec2

// The row and the vector of a lane's element i.
uvec2 element(uint i) {
    uint e = i * SUBGROUP + gl_SubgroupInvocationID;
    return uvec2(e % 16u, e / 16u);
}
Integers no_integers() {
    Integers m;
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) m.of[i] = 0;
    return m;
}
Integers multiply_add(uvec2 weights, uvec2 vectors, Integers sum) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) {
        uvec2 e = element(i);
        uint a = weights.x + e.x * weights.y, b = vectors.x + e.y * vectors.y;
        for (uint n = 0; n < DEPTH / 16; n++) sum.of[i] += dot16(staged[a + n], staged[b + n]);
    }
    return sum;
}
Integers add_product(Integers sum, Integers a, Integers b) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) sum.of[i] += a.of[i] * b.of[i];
    return sum;
}
Floats all_floats(float value) {
    Floats floats;
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) floats.of[i] = value;
    return floats;
}
Integers joined(Integers high, int factor, Integers low) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) low.of[i] += high.of[i] * factor;
    return low;
}
Floats joined_floats(Floats high, Floats low) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) {
        precise float product = high.of[i] * 128.0;
        precise float sum = product + low.of[i];
        low.of[i] = sum;
    }
    return low;
}
Floats floats_of(Integers m) {
    Floats floats;
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) floats.of[i] = float(m.of[i]);
    return floats;
}
Floats product_of(Floats a, Floats b) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) {
        precise float product = a.of[i] * b.of[i];
        a.of[i] = product;
    }
    return a;
}
Floats sum_of(Floats a, Floats b) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) {
        precise float sum = a.of[i] + b.of[i];
        a.of[i] = sum;
    }
    return a;
}
Floats difference_of(Floats a, Floats b) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) {
        precise float difference = a.of[i] - b.of[i];
        a.of[i] = difference;
    }
    return a;
}
void store_results(Floats m, uint at, uint stride) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) {
        uvec2 e = element(i);
        staged[at + e.y * stride + e.x / 4u][e.x % 4u] = floatBitsToUint(m.of[i]);
    }
}
void store_shared(Floats m, uint64_t address, uint at, uint stride) {
    UNROLL for (uint i = 0; i < LANE_ELEMENTS; i++) {
        uvec2 e = element(i);
        SharedFloatsRef(address).of[at + e.y * stride + e.x] = m.of[i];
    }
}

#define NO_INTEGERS no_integers()
#define FLOATS(value) all_floats(value)
#define LOAD_WEIGHTS(bytes, at, stride) bytes = uvec2(at, stride)
#define LOAD_VECTORS(bytes, at, stride) bytes = uvec2(at, stride)
#define LOAD_OF_ROWS(floats, numbers, at) UNROLL for (uint i_ = 0; i_ < LANE_ELEMENTS; i_++) floats.of[i_] = numbers[(at) + element(i_).x]
#define LOAD_INTEGERS_OF_ROWS(integers, words, at) UNROLL for (uint i_ = 0; i_ < LANE_ELEMENTS; i_++) integers.of[i_] = int(words[(at) + element(i_).x])
#define LOAD_BITS_OF_ROWS(floats, words, at) UNROLL for (uint i_ = 0; i_ < LANE_ELEMENTS; i_++) floats.of[i_] = uintBitsToFloat(words[(at) + element(i_).x])
#define LOAD_OF_VECTORS(floats, numbers, at) UNROLL for (uint i_ = 0; i_ < LANE_ELEMENTS; i_++) floats.of[i_] = numbers[(at) + element(i_).y]
#define STORE_RESULTS(floats, at, stride) store_results(floats, at, stride)
#define STORE_SHARED(floats, address, at, stride) store_shared(floats, address, at, stride)
#define MULTIPLY_ADD(weights, vectors, sum) multiply_add(weights, vectors, sum)
#define ADD_PRODUCT(sum, a, b) add_product(sum, a, b)
#define JOINED(high, factor, low) joined(high, factor, low)
#define JOINED_FLOATS(high, low) joined_floats(high, low)
#define FLOATS_OF(integers) floats_of(integers)
#define PRODUCT(a, b) product_of(a, b)
#define SUM(a, b) sum_of(a, b)
#define DIFFERENCE(a, b) difference_of(a, b)
#define CLEAR_NEGLIGIBLE(floats) UNROLL for (uint i_ = 0; i_ < LANE_ELEMENTS; i_++) floats.of[i_] = negligible(floats.of[i_]) ? 0.0 : floats.of[i_]
#endif
