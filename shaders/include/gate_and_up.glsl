// The first half of a feed-forward layer for many rows of the step: what the forms of `gate_up_mul` share. Whoever includes this has `begin_tile`,
// `place_results`, `activated` and the specialisation constant BIASES.

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t gate;  // [experts, rows, COLUMNS] in its format, rows in planes
    uint64_t up;    // [experts, rows, COLUMNS] in its format, rows in planes
    uint64_t gate_bias; // [experts, rows] f32, read where BIASES is 1
    uint64_t up_bias;   // likewise
    uint64_t x;     // [COLUMNS] rounded
    uint64_t y;     // [slots, rows] f32
    uint64_t pairs; // [rows, slots] u32, read where there are tiles
    uint64_t tiles; // the list of tiles; 0 in a dense layer
    uint64_t group_values; // see `begin_values`; 0 where workgroups do not share groups
    uint rows;
    uint slots;     // chosen experts of each row; 1 in a dense layer
    uint room;      // rows of the step that the launch is for
    uint x_stride;  // bytes from one row of the step to the next, as y_stride
    uint y_stride;
} push;

uint64_t first_bias; // bytes to the biases of the tile's expert

// The tile of the workgroup, see `begin_tile`.
uvec2 begin_pair() {
    uvec2 own = begin_tile(gl_WorkGroupID.z, min(row_count(push.state), push.room), push.tiles, push.pairs, push.slots, TileOperand(push.x_stride, 0));
    if (BIASES == 1) first_bias = uint64_t(own.x * push.rows) * 4;
    return own;
}

// Finds out where the results of the tile's vectors go, see `place_results`.
void place_gated(uint count) { place_results(count, push.pairs, push.slots, TileOperand(push.y_stride, push.rows * 4u)); }

// Stores the result of row `row` and a vector of the tile.
void store_gated(uint vector, uint row, float gate, float up) {
    precise float of_gate = gate, of_up = up;
    if (BIASES == 1) {
        of_gate = of_gate + load_f32(push.gate_bias + first_bias, row * 4u);
        of_up = of_up + load_f32(push.up_bias + first_bias, row * 4u);
    }
    store_f32(push.y + uint64_t(RESULT_OFFSETS[vector]), row * 4u, activated(of_gate, of_up));
}

// Whether results of four neighbouring rows can be stored at once: they, and their biases, begin at multiples of 16 bytes.
bool has_gated_quads() {
    uint biases = BIASES == 1 ? uint(push.gate_bias) | uint(push.up_bias) : 0u;
    return ((uint(push.y) | push.y_stride | push.rows * 4u | biases) & 15u) == 0u;
}
// Stores the results of rows [row, row + 4).
void store_gated_quad(uint vector, uint row, vec4 gate, vec4 up) {
    precise vec4 g = gate, u = up;
    if (BIASES == 1) {
        g = g + load_vec4(push.gate_bias + first_bias, row * 4u);
        u = u + load_vec4(push.up_bias + first_bias, row * 4u);
    }
    vec4 results = vec4(activated(g.x, u.x), activated(g.y, u.y), activated(g.z, u.z), activated(g.w, u.w));
    store_vec4(push.y + uint64_t(RESULT_OFFSETS[vector]), row * 4u, results);
}
