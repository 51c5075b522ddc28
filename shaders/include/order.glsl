// Floats as integers that compare as IEEE says: zeros of both signs are equal, and subnormals keep their places whatever the device's
// denormal mode. NaN has no place and must be dealt with before.

uint order_key(float value) {
    uint bits = floatBitsToUint(value);
    if (bits == 0x80000000u) bits = 0u;
    return bits ^ ((bits & 0x80000000u) != 0u ? 0xffffffffu : 0x80000000u);
}

float order_value(uint key) {
    return uintBitsToFloat((key & 0x80000000u) != 0u ? key ^ 0x80000000u : ~key);
}

// NaN and plus infinity: logits that a model must not give.
bool is_broken(float value) {
    uint bits = floatBitsToUint(value);
    return (bits & 0x7fffffffu) > 0x7f800000u || bits == 0x7f800000u;
}
