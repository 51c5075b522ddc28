// How the two products of the first half of a feed-forward layer become one, with each operation rounded by itself. The Rust twin is `reference::activated`.
//
// Whoever includes this has the specialisation constant ACTIVATION.

// What ACTIVATION may be: silu(gate) * up; or gate * sigmoid(SLOPE * gate) * (up + 1), with gate at most LIMIT and up from -LIMIT to LIMIT (gpt-oss).
const uint SWIGLU = 0, CLAMPED_SWIGLU = 1;
// The bits of two floats, from the published configuration and code of gpt-oss: 7 (`swiglu_limit`) and 1.702 (`alpha`).
const uint LIMIT = 0x40e00000, SLOPE = 0x3fd9db23;

// The smaller one of x and LIMIT, and x where it is NaN: bits are compared, since what a comparison of floats makes of NaN is the device's.
float at_most_limit(float x) {
    int bits = floatBitsToInt(x);
    return bits > int(LIMIT) && bits <= 0x7f800000 ? uintBitsToFloat(LIMIT) : x;
}

// What the two products become.
float activated(float gate, float up) {
    if (ACTIVATION == CLAMPED_SWIGLU) {
        gate = at_most_limit(gate);
        up = -at_most_limit(-at_most_limit(up));
    }
    precise float argument = ACTIVATION == CLAMPED_SWIGLU ? uintBitsToFloat(SLOPE) * gate : gate;
    precise float denominator = 1.0 + exp(-argument);
    precise float gated = gate / denominator;
    precise float factor = ACTIVATION == CLAMPED_SWIGLU ? up + 1.0 : up;
    precise float product = gated * factor;
    return product;
}
