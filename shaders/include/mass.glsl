// Softmax weights as integers: their sums do not depend on an order. The Rust twin is `reference::mass`.

// The softmax weight of a logit that lies `below` (a number that is not positive) the highest one: exp(below) * 2^40, rounded down.
uint64_t softmax_weight(float below) {
    if (below < -28.0) return 0; // 2^-40 is exp(-27.7)
    uint bits = floatBitsToUint(exact_exp(below));
    uint exponent = bits >> 23;
    uint significand = (bits & 0x7fffffu) | 0x800000u;
    // The float is significand * 2^(exponent - 150).
    return exponent >= 110 ? uint64_t(significand) << (exponent - 110) : uint64_t(significand >> min(110 - exponent, 31));
}

// The part `p`, in units of 2^-24, of a mass, rounded down and up.
uint64_t part_of(uint64_t mass, uint p) {
    return (mass >> 24) * uint64_t(p) + (((mass & 0xffffffUL) * uint64_t(p)) >> 24);
}
uint64_t part_rounded_up(uint64_t mass, uint p) {
    return (mass >> 24) * uint64_t(p) + (((mass & 0xffffffUL) * uint64_t(p) + 0xffffffUL) >> 24);
}

// A mass that is relative to a logit of the given weight, relative to what that weight is: their product over 2^40, rounded down. The mass is less
// than 2^52, the weight at most 2^40.
uint64_t weighted_mass(uint64_t mass, uint64_t weight) {
    uint64_t high = mass >> 20, low = mass & 0xfffffUL, weight_high = weight >> 20, weight_low = weight & 0xfffffUL;
    return high * weight_high + ((high * weight_low + low * weight_high + ((low * weight_low) >> 20)) >> 20);
}
