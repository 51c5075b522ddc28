// Where the results of a tile's vectors go, in products for steps of many rows.
//
// Whoever includes this has `tile_vectors.glsl`, and defines RESULT_OFFSETS: an array in shared memory with a word for each vector of a tile.

// Puts into RESULT_OFFSETS the bytes from an operand's beginning to the result of each of the tile's `count` vectors. Every thread takes part, and none may
// be using that array.
void place_results(uint count, uint64_t pairs, uint slots, TileOperand y) {
    for (uint v = thread_index(); v < count; v += gl_WorkGroupSize.x) RESULT_OFFSETS[v] = vector_offset(v, pairs, slots, y);
    barrier();
}
