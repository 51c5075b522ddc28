// How many workgroups the products with experts have: `route` writes it, and the device reads it when it launches them.

// The workgroups of one product. Those of all tiles lie in z: a launch without tiles has none.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Grid {
    uint x;
    uint y;
    uint z;
};
const uint GATE_UP_GRID = 0; // bytes from the beginning of the grids to that of `gate_up_mul`
const uint DOWN_GRID = 12;   // bytes from the beginning of the grids to that of `mat_mul`
const uint GRIDS_BYTES = 24;
