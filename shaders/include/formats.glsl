// The decoders of the weight formats: the device's twin of `formats::decode`, bit for bit.
//
// A row is read in units of 32 consecutive elements, one lane a unit. Block layouts are those of GGUF: sizes and meaning are listed
// in `formats.rs`. The format is a specialisation constant wherever this is used, so that one branch survives.

const uint F32 = 0, F16 = 1, BF16 = 2, Q4_0 = 3, Q4_1 = 4, Q5_0 = 5, Q5_1 = 6, Q8_0 = 7, Q4_K = 8, Q5_K = 9, Q6_K = 10;

// Quantised values times a scale, plus an offset. The product is rounded before the sum, as the host does it.
vec4 scaled(vec4 q, float scale) { return q * scale; }
vec4 scaled_plus(vec4 q, float scale, float offset) {
    precise vec4 product = q * scale;
    precise vec4 sum = product + offset;
    return sum;
}
vec4 unsigned_bytes(uint word) {
    return vec4(word & 0xffu, (word >> 8) & 0xffu, (word >> 16) & 0xffu, word >> 24);
}
vec4 signed_bytes(uint word) {
    int w = int(word);
    return vec4(bitfieldExtract(w, 0, 8), bitfieldExtract(w, 8, 8), bitfieldExtract(w, 16, 8), bitfieldExtract(w, 24, 8));
}
uint load_u32_aligned2(uint64_t base, uint offset) { return load_u16(base, offset) | (load_u16(base, offset + 2) << 16); }
// Moves bit i of a nibble to bit 4 of byte i: the fifth bits of four 5-bit values.
uint fifth_bits(uint nibble) {
    return ((nibble & 1u) << 4) | ((nibble & 2u) << 11) | ((nibble & 4u) << 18) | ((nibble & 8u) << 25);
}
// 6-bit scale and minimum of group g of a Q4_K or Q5_K block, from its 12 bytes as three words.
uvec2 k_scale_min(uvec3 packed, uint g) {
    uint shift = 8u * (g & 3u);
    if (g < 4u) return uvec2((packed.x >> shift) & 63u, (packed.y >> shift) & 63u);
    uint low = packed.z >> shift;
    return uvec2((low & 15u) | (((packed.x >> (shift + 6u)) & 3u) << 4), ((low >> 4) & 15u) | (((packed.y >> (shift + 6u)) & 3u) << 4));
}

void decode_f32(uint64_t row, uint unit, out vec4 v[8]) {
    for (uint j = 0; j < 8; j++) v[j] = load_vec4(row, unit * 128u + j * 16u);
}
void decode_f16(uint64_t row, uint unit, out vec4 v[8]) {
    for (uint j = 0; j < 4; j++) {
        uvec4 w = load_uvec4(row, unit * 64u + j * 16u);
        v[2 * j] = vec4(half_value(w.x & 0xffffu), half_value(w.x >> 16), half_value(w.y & 0xffffu), half_value(w.y >> 16));
        v[2 * j + 1] = vec4(half_value(w.z & 0xffffu), half_value(w.z >> 16), half_value(w.w & 0xffffu), half_value(w.w >> 16));
    }
}
void decode_bf16(uint64_t row, uint unit, out vec4 v[8]) {
    for (uint j = 0; j < 4; j++) {
        uvec4 w = load_uvec4(row, unit * 64u + j * 16u);
        uvec4 low = w << 16;
        uvec4 high = w & 0xffff0000u;
        v[2 * j] = uintBitsToFloat(uvec4(low.x, high.x, low.y, high.y));
        v[2 * j + 1] = uintBitsToFloat(uvec4(low.z, high.z, low.w, high.w));
    }
}
void decode_q4_0(uint64_t row, uint unit, out vec4 v[8]) {
    uint block = unit * 18u;
    float d = half_value(load_u16(row, block));
    for (uint j = 0; j < 4; j++) {
        uint w = load_u32_aligned2(row, block + 2u + j * 4u);
        v[j] = scaled(unsigned_bytes(w & 0x0f0f0f0fu) - 8.0, d);
        v[j + 4] = scaled(unsigned_bytes((w >> 4) & 0x0f0f0f0fu) - 8.0, d);
    }
}
void decode_q4_1(uint64_t row, uint unit, out vec4 v[8]) {
    uint block = unit * 20u;
    uint header = load_u32(row, block);
    float d = half_value(header & 0xffffu), m = half_value(header >> 16);
    for (uint j = 0; j < 4; j++) {
        uint w = load_u32(row, block + 4u + j * 4u);
        v[j] = scaled_plus(unsigned_bytes(w & 0x0f0f0f0fu), d, m);
        v[j + 4] = scaled_plus(unsigned_bytes((w >> 4) & 0x0f0f0f0fu), d, m);
    }
}
void decode_q5_0(uint64_t row, uint unit, out vec4 v[8]) {
    uint block = unit * 22u;
    float d = half_value(load_u16(row, block));
    uint fifth = load_u32_aligned2(row, block + 2u);
    for (uint j = 0; j < 4; j++) {
        uint w = load_u32_aligned2(row, block + 6u + j * 4u);
        v[j] = scaled(unsigned_bytes((w & 0x0f0f0f0fu) | fifth_bits(fifth >> (4u * j))) - 16.0, d);
        v[j + 4] = scaled(unsigned_bytes(((w >> 4) & 0x0f0f0f0fu) | fifth_bits(fifth >> (16u + 4u * j))) - 16.0, d);
    }
}
void decode_q5_1(uint64_t row, uint unit, out vec4 v[8]) {
    uint block = unit * 24u;
    uint header = load_u32(row, block);
    float d = half_value(header & 0xffffu), m = half_value(header >> 16);
    uint fifth = load_u32(row, block + 4u);
    for (uint j = 0; j < 4; j++) {
        uint w = load_u32(row, block + 8u + j * 4u);
        v[j] = scaled_plus(unsigned_bytes((w & 0x0f0f0f0fu) | fifth_bits(fifth >> (4u * j))), d, m);
        v[j + 4] = scaled_plus(unsigned_bytes(((w >> 4) & 0x0f0f0f0fu) | fifth_bits(fifth >> (16u + 4u * j))), d, m);
    }
}
void decode_q8_0(uint64_t row, uint unit, out vec4 v[8]) {
    uint block = unit * 34u;
    float d = half_value(load_u16(row, block));
    for (uint j = 0; j < 8; j++) v[j] = scaled(signed_bytes(load_u32_aligned2(row, block + 2u + j * 4u)), d);
}
// Group g of a K block with 6-bit scales: effective scale and (negative) offset.
vec2 k_scale_offset(uvec4 header, uint g) {
    uvec2 scale_min = k_scale_min(header.yzw, g);
    precise float scale = half_value(header.x & 0xffffu) * float(scale_min.x);
    precise float offset = half_value(header.x >> 16) * float(scale_min.y);
    return vec2(scale, -offset);
}
void decode_q4_k(uint64_t row, uint unit, out vec4 v[8]) {
    uint block = (unit >> 3) * 144u, g = unit & 7u;
    vec2 so = k_scale_offset(load_uvec4(row, block), g);
    uint shift = (g & 1u) * 4u;
    for (uint j = 0; j < 2; j++) {
        uvec4 w = (load_uvec4(row, block + 16u + (g >> 1) * 32u + j * 16u) >> shift) & 0x0f0f0f0fu;
        v[4 * j] = scaled_plus(unsigned_bytes(w.x), so.x, so.y);
        v[4 * j + 1] = scaled_plus(unsigned_bytes(w.y), so.x, so.y);
        v[4 * j + 2] = scaled_plus(unsigned_bytes(w.z), so.x, so.y);
        v[4 * j + 3] = scaled_plus(unsigned_bytes(w.w), so.x, so.y);
    }
}
void decode_q5_k(uint64_t row, uint unit, out vec4 v[8]) {
    uint block = (unit >> 3) * 176u, g = unit & 7u;
    vec2 so = k_scale_offset(load_uvec4(row, block), g);
    uint shift = (g & 1u) * 4u;
    for (uint j = 0; j < 2; j++) {
        uvec4 fifth = ((load_uvec4(row, block + 16u + j * 16u) >> g) & 0x01010101u) << 4;
        uvec4 w = ((load_uvec4(row, block + 48u + (g >> 1) * 32u + j * 16u) >> shift) & 0x0f0f0f0fu) | fifth;
        v[4 * j] = scaled_plus(unsigned_bytes(w.x), so.x, so.y);
        v[4 * j + 1] = scaled_plus(unsigned_bytes(w.y), so.x, so.y);
        v[4 * j + 2] = scaled_plus(unsigned_bytes(w.z), so.x, so.y);
        v[4 * j + 3] = scaled_plus(unsigned_bytes(w.w), so.x, so.y);
    }
}
void decode_q6_k(uint64_t row, uint unit, out vec4 v[8]) {
    uint block = (unit >> 3) * 210u, g = unit & 7u;
    uint part = g & 3u, portion = g >> 2; // a block is two portions of 128 elements in four interleaved parts
    float d = half_value(load_u16(row, block + 208u));
    uint scales = load_u16(row, block + 192u + portion * 8u + part * 2u);
    float scale0 = d * float(bitfieldExtract(int(scales), 0, 8));
    float scale1 = d * float(bitfieldExtract(int(scales), 8, 8));
    uint low_shift = (part >> 1) * 4u, high_shift = part * 2u;
    for (uint j = 0; j < 8; j++) {
        uint low = load_u32_aligned2(row, block + portion * 64u + (part & 1u) * 32u + j * 4u);
        uint high = load_u32_aligned2(row, block + 128u + portion * 32u + j * 4u);
        uint q = ((low >> low_shift) & 0x0f0f0f0fu) | (((high >> high_shift) & 0x03030303u) << 4);
        v[j] = scaled(unsigned_bytes(q) - 32.0, j < 4u ? scale0 : scale1);
    }
}

// Decodes elements [32 * unit, 32 * unit + 32) of the row.
void decode_unit(uint format, uint64_t row, uint unit, out vec4 v[8]) {
    switch (format) {
    case F32: decode_f32(row, unit, v); break;
    case F16: decode_f16(row, unit, v); break;
    case BF16: decode_bf16(row, unit, v); break;
    case Q4_0: decode_q4_0(row, unit, v); break;
    case Q4_1: decode_q4_1(row, unit, v); break;
    case Q5_0: decode_q5_0(row, unit, v); break;
    case Q5_1: decode_q5_1(row, unit, v); break;
    case Q8_0: decode_q8_0(row, unit, v); break;
    case Q4_K: decode_q4_k(row, unit, v); break;
    case Q5_K: decode_q5_k(row, unit, v); break;
    default: decode_q6_k(row, unit, v); break;
    }
}

// Dot product of a whole row of `units` * 32 weights with the float vector at `x`, by one subgroup; every lane gets the sum.
float row_dot(uint format, uint64_t row, uint64_t x, uint units) {
    float sum = 0.0;
    for (uint unit = gl_SubgroupInvocationID; unit < units; unit += SUBGROUP) {
        vec4 w[8];
        decode_unit(format, row, unit, w);
        for (uint j = 0; j < 8; j++) sum += dot(w[j], load_vec4(x, unit * 128u + j * 16u));
    }
    return subgroupAdd(sum);
}
