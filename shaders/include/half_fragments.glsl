// Fragments of halves: matrices of 16 x 16 that 32 lanes hold together, and products of two of them that are added to sums in f32. With MATRIX_UNITS
// defined they are cooperative matrices, which float matrix units multiply. Without it they are arrays, and f32 arithmetic stands in for the units: the
// kernels are tested so where there are none. The results of the two differ in their last bits.
//
// Lane l holds the elements of rows l / 4 and l / 4 + 8 in columns 2 * (l % 4), the one behind it, and the two that stand 8 columns further: eight elements,
// by row and then by column, of sums and of left factors alike. NVIDIA's devices hold them so. A kernel that includes this is used on no others.
//
// Whoever includes this has `workgroup.glsl` and `half.glsl`, and defines `staged`, an array of uvec4 in shared memory, of eight halves each. Places and
// strides count uvec4. All lanes of a workgroup take part in everything.
#ifdef MATRIX_UNITS
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#extension GL_KHR_shader_subgroup_vote : require

// The 32 lanes that hold a fragment: a subgroup with matrix units, else any 32 lanes in a row.
const uint TEAM = 32;
uint team_index() { return lane_index() / TEAM; }
uint team_lane() { return lane_index() % TEAM; }

// The row, of 16, and the column of the lane's element i of eight. Elements 0 to 3 are in one row and 4 to 7 in another.
uint element_row(uint i) { return team_lane() / 4u + 8u * (i / 4u); }
uint element_column(uint i) { return 2u * (team_lane() % 4u) + i % 2u + 8u * (i / 2u % 2u); }

#ifdef MATRIX_UNITS
// Loops over what a lane holds: fragments are not to be indexed by variables.
#define UNROLL [[unroll]]
#define Sums coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define Left coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define Right coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define NO_SUMS Sums(0.0)
#define ONES Right(float16_t(1.0))
// The lane's element i of sums.
#define ELEMENT(sums, i) sums[i]
// A left factor from an array in shared memory; `stride` leads from one row to the next.
#define LOAD_LEFT(left, array, at, stride) coopMatLoad(left, array, at, stride, gl_CooperativeMatrixLayoutRowMajor)
// A right factor whose columns lie one behind the other in `staged`, and one whose rows do.
#define LOAD_COLUMNS(right, at, stride) coopMatLoad(right, staged, at, stride, gl_CooperativeMatrixLayoutColumnMajor)
#define LOAD_ROWS(right, at, stride) coopMatLoad(right, staged, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#define MULTIPLY_ADD(left, right, sums) coopMatMulAdd(left, right, sums)
// Two floats as a word of two halves.
uint two_halves(float first, float second) { return packFloat2x16(f16vec2(float16_t(first), float16_t(second))); }
// Makes a left factor of the elements that each lane has of it, two in each of four words.
#define MAKE_LEFT(left, words) UNROLL for (uint i_ = 0; i_ < 4; i_++) { f16vec2 two_ = unpackFloat2x16(words[i_]); left[2 * i_] = two_.x; left[2 * i_ + 1] = two_.y; }
#else
// A CPU's compiler takes long for what is unrolled. Only the innermost loop is, because Mesa's CPU driver ends a shader's loops after 65,535 rounds of all
// of them together.
#define UNROLL [[dont_unroll]]
struct Sums { float of[8]; };
// The two rows of the lane, each as two words of eight halves.
struct Left { uvec4 of[4]; };
// Where it lies in `staged`, the stride, and how: what is loaded is read when it is multiplied.
#define Right uvec3
const uint BY_COLUMNS = 0, BY_ROWS = 1, ALL_ONES = 2;

Sums no_sums() {
    Sums sums;
    UNROLL for (uint i = 0; i < 8; i++) sums.of[i] = 0.0;
    return sums;
}
// Half n of a word of eight.
float half_of(uvec4 word, uint n) { return half_value((word[n / 2u] >> (16u * (n % 2u))) & 0xffffu); }
Sums multiply_add(Left left, uvec3 right, Sums sums) {
    UNROLL for (uint i = 0; i < 8; i++) {
        uint n = element_column(i);
        precise float sum = sums.of[i];
        [[unroll]] for (uint k = 0; k < 16; k++) {
            float y = 1.0;
            if (right.z == BY_COLUMNS) y = half_of(staged[right.x + n * right.y + k / 8u], k % 8u);
            if (right.z == BY_ROWS) y = half_of(staged[right.x + k * right.y + n / 8u], n % 8u);
            precise float added = fma(half_of(left.of[i / 4u * 2u + k / 8u], k % 8u), y, sum);
            sum = added;
        }
        sums.of[i] = sum;
    }
    return sums;
}
uint two_halves(float first, float second) { return half_bits(first) | (half_bits(second) << 16); }
// The four lanes of a row have two elements each of every eight.
Left make_left(uint words[4]) {
    Left left;
    UNROLL for (uint i = 0; i < 4; i++) {
        UNROLL for (uint n = 0; n < 4; n++) left.of[i][n] = subgroupShuffle(words[i], (gl_SubgroupInvocationID & ~3u) + n);
    }
    return left;
}
#define NO_SUMS no_sums()
#define ONES uvec3(0, 0, ALL_ONES)
#define ELEMENT(sums, i) sums.of[i]
#define LOAD_LEFT(left, array, at, stride) UNROLL for (uint i_ = 0; i_ < 4; i_++) left.of[i_] = array[(at) + element_row(i_ / 2 * 4) * (stride) + i_ % 2]
#define LOAD_COLUMNS(right, at, stride) right = uvec3(at, stride, BY_COLUMNS)
#define LOAD_ROWS(right, at, stride) right = uvec3(at, stride, BY_ROWS)
#define MULTIPLY_ADD(left, right, sums) multiply_add(left, right, sums)
#define MAKE_LEFT(left, words) left = make_left(words)
#endif
