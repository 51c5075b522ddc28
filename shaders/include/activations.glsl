// Activations as the matrix products take them: plain f32, or integers with a scale for each run of 16.
//
// A quantised vector of n elements is n signed bytes (Q8), or the high and then the low bytes of n integers (Q16: 256 * high + low, both
// signed), followed by n / 16 pairs (scale, sum): element i is scale * q[i], and the sum is that of the run's elements as they are after
// rounding, for the formats that have an offset. The Rust twin is `reference::Quantised`.

const uint ACT_F32 = 0, ACT_Q8 = 1, ACT_Q16 = 2;
const uint RUN = 16;

// Where the scales of a quantised vector of `n` elements begin.
uint act_scales(uint form, uint n) { return form == ACT_Q16 ? 2 * n : n; }
// Bytes of a vector of `n` elements.
uint act_bytes(uint form, uint n) { return form == ACT_F32 ? n * 4 : act_scales(form, n) + n / 2; }

struct QuantisedRun {
    uvec4 high;
    uvec4 low;  // of Q16
    vec2 scale; // and sum
};

QuantisedRun load_act_run(uint form, uint64_t x, uint n, uint run) {
    QuantisedRun value;
    value.high = load_uvec4(x, run * 16u);
    value.low = form == ACT_Q16 ? load_uvec4(x, n + run * 16u) : uvec4(0);
    value.scale = uintBitsToFloat(load_uvec2(x, act_scales(form, n) + run * 8u));
    return value;
}

uint packed_bytes(ivec4 q) {
    return (uint(q.x) & 0xffu) | ((uint(q.y) & 0xffu) << 8) | ((uint(q.z) & 0xffu) << 16) | (uint(q.w) << 24);
}

// A quarter of a run, with the scale and sum of the whole.
struct QuantisedPart {
    uint high;
    uint low;
    vec2 scale;
};

// Rounds the sixteen values of four neighbouring lanes to the nearest multiple of their largest magnitude / 127 (Q8) or 32,512 (Q16), ties to
// even. A value that is not finite makes the scale so; magnitudes below 1e-30 become 0.
QuantisedPart quantise(uint form, vec4 v) {
    float levels = form == ACT_Q16 ? 32512.0 : 127.0;
    uvec4 bits = floatBitsToUint(v) & 0x7fffffffu;
    uint highest = max(max(bits.x, bits.y), max(bits.z, bits.w)); // of non-negative floats, as integers: NaN is above infinity
    highest = max(highest, subgroupShuffleXor(highest, 1));
    highest = max(highest, subgroupShuffleXor(highest, 2));
    float largest = uintBitsToFloat(highest);
    bool usable = largest >= 1e-30 && highest < 0x7f800000u;
    float inverse = usable ? levels / largest : 0.0;
    ivec4 q = usable ? ivec4(roundEven(v * inverse)) : ivec4(0);
    ivec4 high = form == ACT_Q16 ? (q + 128) >> 8 : q;
    int sum = q.x + q.y + q.z + q.w;
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    float scale = usable || highest >= 0x7f800000u ? largest / levels : 0.0;
    return QuantisedPart(packed_bytes(high), packed_bytes(q - (high << 8)), vec2(scale, scale * float(sum)));
}

// Four values of a vector of `n`, elements [4 * part, 4 * part + 4), in the given form. Four neighbouring lanes store the parts of a run.
void store_act(uint form, uint64_t y, uint n, uint part, vec4 v) {
    if (form == ACT_F32) {
        store_vec4(y, part * 16u, v);
        return;
    }
    QuantisedPart quantised = quantise(form, v);
    store_u32(y, part * 4u, quantised.high);
    if (form == ACT_Q16) store_u32(y, n + part * 4u, quantised.low);
    if (part % 4u == 0u) store_uvec2(y, act_scales(form, n) + part * 2u, floatBitsToUint(quantised.scale));
}
