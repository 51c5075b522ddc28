// Up to three matrices times the vectors of many rows of the step, or the matrices of experts times the vectors of pairs: what the forms of `mat_mul`
// share. The matrices are cut into blocks of rows, one after the other; a workgroup has one block, and a tile of vectors.
//
// Whoever includes this has `begin_tile`, `place_results`, BLOCK_ROWS, SPLITS, the number of workgroups that share a block and a tile, and the specialisation
// constants FORMAT_0 to FORMAT_2 and ACCUMULATE, and defines `multiply`, which is declared below.

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;         // [slots, COLUMNS] rounded
    uint64_t weights_0; // [experts, rows, COLUMNS] in FORMAT_0, rows in planes
    uint64_t weights_1;
    uint64_t weights_2;
    uint64_t bias_0;    // [rows] f32, with experts [experts, rows], or 0 for none
    uint64_t bias_1;
    uint64_t bias_2;
    uint64_t y_0;       // [slots, rows] f32
    uint64_t y_1_or_pairs; // of a second matrix; with experts, which have one, [rows, slots] u32
    uint64_t y_2_or_tiles; // of a third matrix; with experts the list of tiles
    uint64_t group_values; // see `begin_values`; 0 where SPLITS is 1
    uint rows_0;
    uint rows_1;
    uint rows_2;
    uint slots_and_room; // 65,536 times the slots of each row, which are 0 without experts, plus the rows of the step that the launch is for
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

// The slots of each row with experts, and otherwise 0.
uint product_slots() { return push.slots_and_room >> 16; }
// The list of pairs; 0 without experts.
uint64_t product_pairs() { return product_slots() > 0 ? push.y_1_or_pairs : uint64_t(0); }
// The tile of the workgroup, see `begin_tile`.
uvec2 begin_product(uint listed) {
    uint64_t tiles = product_slots() > 0 ? push.y_2_or_tiles : uint64_t(0);
    TileOperand x = TileOperand(push.x_stride, rounded_bytes(GROUPS));
    return begin_tile(gl_WorkGroupID.z, min(listed, push.slots_and_room & 0xffffu), tiles, product_pairs(), max(product_slots(), 1), x);
}

// Finds out where the results of the tile's vectors go, see `place_results`.
void place_products(Product product, uint count) {
    place_results(count, product_pairs(), max(product_slots(), 1), TileOperand(product.y_stride, product.rows * 4u));
}

// Stores a result: `sum`, of row `row` and of a vector of the tile.
void store_product(Product product, uint vector, uint row, float sum) {
    uint64_t at = product.y + uint64_t(RESULT_OFFSETS[vector]);
    precise float result = sum;
    if (product.bias != 0) result = result + load_f32(product.bias, row * 4u);
    if (ACCUMULATE == 1) result = load_f32(at, row * 4u) + result;
    store_f32(at, row * 4u, result);
}

// Whether results of four neighbouring rows can be stored at once: they begin at multiples of 16 bytes.
bool has_result_quads(Product product) {
    return ((uint(product.y) | product.y_stride | uint(product.bias) | product.rows * 4u) & 15u) == 0u;
}
// Stores results of rows [row, row + 4).
void store_product_quad(Product product, uint vector, uint row, vec4 sums) {
    uint64_t at = product.y + uint64_t(RESULT_OFFSETS[vector]);
    precise vec4 result = sums;
    if (product.bias != 0) result = result + load_vec4(product.bias, row * 4u);
    if (ACCUMULATE == 1) result = load_vec4(at, row * 4u) + result;
    store_vec4(at, row * 4u, result);
}

// Rows [BLOCK_ROWS * block, BLOCK_ROWS * (block + 1)) of a matrix; `listed` is the number of the step's rows.
void multiply(uint format, Product product, uint block, uint listed);

uint blocks(uint rows) { return (rows + BLOCK_ROWS - 1) / BLOCK_ROWS; }

// Finds out which block of which matrix the workgroup has.
void multiply_matrices() {
    uint listed = row_count(push.state), block = flat_workgroup() / SPLITS;
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
    if (block * BLOCK_ROWS >= product.rows) return;
    // Matrices of one format share its code: what a dispatch must fetch of instructions counts.
    if (format == FORMAT_0) multiply(FORMAT_0, product, block, listed);
    else if (FORMAT_1 != NO_FORMAT && FORMAT_1 != FORMAT_0 && format == FORMAT_1) multiply(FORMAT_1, product, block, listed);
    else if (FORMAT_2 != NO_FORMAT && FORMAT_2 != FORMAT_0 && FORMAT_2 != FORMAT_1) multiply(FORMAT_2, product, block, listed);
}
