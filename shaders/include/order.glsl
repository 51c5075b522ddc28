// Floats as integers that compare alike: IEEE's total order, in which -0 lies below +0 and subnormals keep their places whatever the
// device's denormal mode. The Rust twin is `f32::total_cmp`.

uint order_key(float value) {
    uint bits = floatBitsToUint(value);
    return bits ^ ((bits & 0x80000000u) != 0u ? 0xffffffffu : 0x80000000u);
}

float order_value(uint key) {
    return uintBitsToFloat((key & 0x80000000u) != 0u ? key ^ 0x80000000u : ~key);
}
