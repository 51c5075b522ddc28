// Halves. The Rust twin is the `half` crate.

// Rounds to the nearest half, ties to even, as bits, by integer operations: the result does not depend on a device's rounding or denormal
// mode. Values beyond the range become infinities, NaN stays NaN.
uint half_bits(float value) {
    uint bits = floatBitsToUint(value);
    uint sign = (bits >> 16) & 0x8000u;
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u; // 65,520 and above round to infinity
    if (magnitude < 0x38800000u) {                       // below 2^-14: subnormal or zero
        uint shift = 126u - (magnitude >> 23);           // the significand moves right so that bit 0 weighs 2^-24
        if (shift > 24u) return sign;
        uint significand = (magnitude & 0x7fffffu) | 0x800000u;
        uint rounded = significand >> shift;
        uint rest = significand & ((1u << shift) - 1u);
        uint halfway = 1u << (shift - 1u);
        if (rest > halfway || (rest == halfway && (rounded & 1u) != 0u)) rounded++;
        return sign | rounded;
    }
    uint rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return sign | ((rounded - 0x38000000u) >> 13);
}

// The value of the half in the low 16 bits, and of both halves of a word.
float half_value(uint bits) { return unpackHalf2x16(bits).x; }
vec2 half_pair(uint word) { return unpackHalf2x16(word); }
