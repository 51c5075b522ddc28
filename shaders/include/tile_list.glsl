// The list of tiles that `route` makes and products with experts read.

// One entry of the list.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Tile {
    uint expert; // whose matrix it is
    uint first;  // of its pairs, the place in the list of pairs
    uint count;  // of its pairs
    uint unused; // fills an entry up to 16 bytes, which one load brings
};
const uint TILE_BYTES = 16;
