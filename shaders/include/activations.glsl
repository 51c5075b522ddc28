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

void store_act_run(uint form, uint64_t y, uint n, uint run, QuantisedRun value) {
    store_uvec4(y, run * 16u, value.high);
    if (form == ACT_Q16) store_uvec4(y, n + run * 16u, value.low);
    store_uvec2(y, act_scales(form, n) + run * 8u, floatBitsToUint(value.scale));
}

uint packed_bytes(ivec4 q) {
    return (uint(q.x) & 0xffu) | ((uint(q.y) & 0xffu) << 8) | ((uint(q.z) & 0xffu) << 16) | (uint(q.w) << 24);
}

// Rounds sixteen values to the nearest multiple of their largest magnitude / 127 (Q8) or 32,512 (Q16), ties to even. A value that is not
// finite makes the scale so; magnitudes below 1e-30 become 0.
QuantisedRun quantise_run(uint form, vec4 v[4]) {
    float levels = form == ACT_Q16 ? 32512.0 : 127.0;
    uvec4 bits = uvec4(0);
    for (uint j = 0; j < 4; j++) bits = max(bits, floatBitsToUint(v[j]) & 0x7fffffffu);
    uint highest = max(max(bits.x, bits.y), max(bits.z, bits.w)); // of non-negative floats, as integers: NaN is above infinity
    float largest = uintBitsToFloat(highest);
    bool usable = largest >= 1e-30 && highest < 0x7f800000u;
    float inverse = usable ? levels / largest : 0.0;
    QuantisedRun run;
    ivec4 sums = ivec4(0);
    for (uint j = 0; j < 4; j++) {
        ivec4 q = usable ? ivec4(roundEven(v[j] * inverse)) : ivec4(0);
        ivec4 high = form == ACT_Q16 ? (q + 128) >> 8 : q;
        run.high[j] = packed_bytes(high);
        run.low[j] = packed_bytes(q - (high << 8));
        sums += q;
    }
    float scale = usable || highest >= 0x7f800000u ? largest / levels : 0.0;
    run.scale = vec2(scale, scale * float(sums.x + sums.y + sums.z + sums.w));
    return run;
}

// Sixteen values in the given form.
void store_act(uint form, uint64_t y, uint n, uint run, vec4 v[4]) {
    if (form == ACT_F32) {
        for (uint j = 0; j < 4; j++) store_vec4(y, run * 64u + j * 16u, v[j]);
    } else {
        store_act_run(form, y, n, run, quantise_run(form, v));
    }
}
