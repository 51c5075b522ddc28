// The vectors of a workgroup's tile, in products for steps of many rows: where each of them lies.
//
// In steps without experts a tile has as many neighbouring rows of the step. With experts, `route` lists the tiles: a tile has an expert's matrix and
// pairs, a row of the step and one of the slots of its chosen experts.
//
// Whoever includes this has the specialisation constants LISTED, the most vectors of a tile of the list, and TILE, the most that a workgroup takes of
// them: powers of two, the second no larger than the first.

// How far apart an operand has what belongs to two vectors.
struct TileOperand {
    uint row_stride;  // bytes from one row of the step to the next
    uint slot_stride; // bytes from one slot to the next
};

shared uint tile_offsets[TILE]; // of each vector: bytes to what is multiplied
uint tile_first; // the tile's first pair: its place in the list of pairs, or a row of the step

// The bytes from an operand's beginning to what it has of vector `v` of the tile. `pairs` is 0 in a step without experts.
uint vector_offset(uint v, uint64_t pairs, uint slots, TileOperand operand) {
    uint pair = pairs != 0 ? load_u32(pairs, (tile_first + v) * 4u) : (tile_first + v) * slots;
    return pair / slots * operand.row_stride + pair % slots * operand.slot_stride;
}

// The tile of a workgroup: its expert and the number of its vectors, which is 0 if there is no such tile. Fills `tile_offsets`. Every thread
// takes part; the answer is the same for all of them. `tile` is the number of the tile among those of TILE vectors, `listed` that of the step's rows
// that the launch is for. `tiles` and `pairs` are 0 in a step without experts.
uvec2 begin_tile(uint tile, uint listed, uint64_t tiles, uint64_t pairs, uint slots, TileOperand x) {
    if (listed == 0) return uvec2(0);
    uint expert = 0, count = listed > tile * TILE ? min(TILE, listed - tile * TILE) : 0;
    tile_first = tile * TILE;
    if (tiles != 0) {
        uint in_list = tile / (LISTED / TILE), skipped = tile % (LISTED / TILE) * TILE;
        Tile entry = Tile(tiles + uint64_t(in_list * TILE_BYTES));
        expert = entry.expert;
        tile_first = entry.first + skipped;
        count = entry.count > skipped ? min(entry.count - skipped, TILE) : 0;
    }
    if (count == 0) return uvec2(0);
    for (uint v = thread_index(); v < count; v += gl_WorkGroupSize.x) tile_offsets[v] = vector_offset(v, pairs, slots, x);
    barrier();
    return uvec2(expert, count);
}
