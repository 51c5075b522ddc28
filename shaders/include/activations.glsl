// Activations as the matrix products take them: plain f32, or 8-bit integers with a scale for each run of 16.
//
// A quantised vector of n elements is n signed bytes followed by n / 16 pairs (scale, sum): element i is scale * q[i], and the sum is that
// of the run's elements as they are after rounding, for the formats that have an offset. The Rust twin is `reference::activations`.

const uint ACT_F32 = 0, ACT_Q8 = 1;
const uint RUN = 16;

// Bytes of a vector of `n` elements.
uint act_bytes(uint form, uint n) { return form == ACT_Q8 ? n + n / 2 : n * 4; }

uvec4 load_act_q(uint64_t x, uint run) { return load_uvec4(x, run * 16u); }
vec2 load_act_scale(uint64_t x, uint n, uint run) { return uintBitsToFloat(load_uvec2(x, n + run * 8u)); }

struct QuantisedRun {
    uvec4 q;
    vec2 scale; // and sum
};

uint packed_bytes(ivec4 q) {
    return (uint(q.x) & 0xffu) | ((uint(q.y) & 0xffu) << 8) | ((uint(q.z) & 0xffu) << 16) | (uint(q.w) << 24);
}

// Rounds sixteen values to the nearest multiple of their largest magnitude / 127, ties to even. A value that is not finite makes the
// scale so; magnitudes below 1e-30 become 0.
QuantisedRun quantise_run(vec4 v[4]) {
    uvec4 bits = uvec4(0);
    for (uint j = 0; j < 4; j++) bits = max(bits, floatBitsToUint(v[j]) & 0x7fffffffu);
    uint highest = max(max(bits.x, bits.y), max(bits.z, bits.w)); // of non-negative floats, as integers: NaN is above infinity
    float largest = uintBitsToFloat(highest);
    bool usable = largest >= 1e-30 && highest < 0x7f800000u;
    float inverse = usable ? 127.0 / largest : 0.0;
    QuantisedRun run;
    int sum = 0;
    for (uint j = 0; j < 4; j++) {
        ivec4 q = usable ? ivec4(roundEven(v[j] * inverse)) : ivec4(0);
        run.q[j] = packed_bytes(q);
        sum += q.x + q.y + q.z + q.w;
    }
    float scale = largest >= 1e-30 || highest >= 0x7f800000u ? largest / 127.0 : 0.0;
    run.scale = vec2(scale, scale * float(sum));
    return run;
}

void store_act_run(uint64_t y, uint n, uint run, QuantisedRun value) {
    store_uvec4(y, run * 16u, value.q);
    store_uvec2(y, n + run * 8u, floatBitsToUint(value.scale));
}

// Sixteen values in the given form.
void store_act(uint form, uint64_t y, uint n, uint run, vec4 v[4]) {
    if (form == ACT_Q8) {
        store_act_run(y, n, run, quantise_run(v));
    } else {
        for (uint j = 0; j < 4; j++) store_vec4(y, run * 64u + j * 16u, v[j]);
    }
}
