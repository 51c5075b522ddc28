// The weight formats on the device: the twin of `formats::decode`, bit for bit.
//
// Rows lie in planes (`formats::planes`): a field of all blocks of the row, then the next field, each plane padded to 16 bytes. A row is
// read in chunks of 32 elements, one or two by a lane: two runs of 16 elements, which have a scale and an offset each. Where the two
// runs of a chunk stand in the row depends on the format. The format is a specialisation constant wherever this is used, so that one branch
// survives. In quantised formats an element is scale * q + offset with q a signed byte.

const uint F32 = 0, F16 = 1, BF16 = 2, Q4_0 = 3, Q4_1 = 4, Q5_0 = 5, Q5_1 = 6, Q8_0 = 7, Q4_K = 8, Q5_K = 9, Q6_K = 10;
const uint Q2_K = 11, Q3_K = 12, IQ4_NL = 13, IQ4_XS = 14, MXFP4 = 15;
const uint NO_FORMAT = 255; // there is no such matrix

bool is_float(uint format) { return format <= BF16; }
bool has_offset(uint format) {
    return format == Q4_1 || format == Q5_1 || format == Q2_K || format == Q4_K || format == Q5_K;
}
// Formats whose chunks pair the runs of two sub-blocks that share their bytes.
bool has_k_pairs(uint format) { return format == Q2_K || format == Q3_K || format == Q4_K || format == Q5_K || format == Q6_K; }

// Bytes of a row of `columns` elements: `Format::device_row_bytes`.
uint row_bytes(uint format, uint columns) {
    uint units = columns >> 5, blocks = columns >> 8;
    switch (format) {
    case F32: return columns * 4u;
    case F16: case BF16: return columns * 2u;
    case Q4_0: case IQ4_NL: return columns / 2u + pad16(units * 2u);
    case Q4_1: return columns / 2u + pad16(units * 4u);
    case Q5_0: return columns / 2u + pad16(units * 4u) + pad16(units * 2u);
    case Q5_1: return columns / 2u + pad16(units * 4u) + pad16(units * 4u);
    case Q8_0: return columns + pad16(units * 2u);
    case Q4_K: return blocks * 144u;
    case Q5_K: return blocks * 176u;
    case Q6_K: return blocks * 208u + pad16(blocks * 2u);
    case Q2_K: return blocks * 80u + pad16(blocks * 4u);
    case Q3_K: return blocks * 96u + pad16(blocks * 12u) + pad16(blocks * 2u);
    case IQ4_XS: return blocks * 128u + pad16(blocks * 8u);
    default: return columns / 2u + pad16(units);
    }
}

// The numbers of the two runs of a chunk: elements [16 * run, 16 * run + 16) of the row.
uvec2 chunk_runs(uint format, uint chunk) {
    if (!has_k_pairs(format)) return uvec2(2u * chunk, 2u * chunk + 1u);
    uint block = chunk >> 3, c = chunk & 7u;
    uint first;
    uint apart = 2u;
    if (format == Q4_K || format == Q5_K) {
        first = block * 16u + (c >> 1) * 4u + (c & 1u);
    } else if (format == Q6_K) {
        first = block * 16u + (c >> 2) * 8u + (c & 3u);
        apart = 4u;
    } else {
        first = block * 16u + (c >> 2) * 8u + ((c >> 1) & 1u) * 4u + (c & 1u);
    }
    return uvec2(first, first + apart);
}

// The bytes of a chunk as they were loaded, before anything is computed: loads of several chunks are issued before the first is used.
struct Raw {
    uvec4 quants;
    uvec4 more; // further quantised bits
    uvec4 head; // scales
};

// Loads a chunk's quantised bits.
void load_quants(uint format, uint64_t row, uint columns, uint chunk, inout Raw raw) {
    uint block = chunk >> 3, c = chunk & 7u;
    switch (format) {
    case Q5_0: case Q5_1:
        raw.quants = load_uvec4(row, chunk * 16u);
        raw.more.x = load_u32(row, columns / 2u + chunk * 4u);
        break;
    case Q8_0:
        raw.quants = load_uvec4(row, chunk * 32u);
        raw.more = load_uvec4(row, chunk * 32u + 16u);
        break;
    case Q5_K:
        raw.quants = load_uvec4(row, chunk * 16u);
        raw.more = load_uvec4(row, columns / 2u + block * 32u + (c & 1u) * 16u);
        break;
    case Q6_K:
        raw.quants = load_uvec4(row, chunk * 16u);
        raw.more = load_uvec4(row, columns / 2u + block * 64u + (c >> 2) * 32u + (c & 1u) * 16u);
        break;
    case Q2_K:
        raw.quants = load_uvec4(row, block * 64u + (c >> 2) * 32u + (c & 1u) * 16u);
        raw.more = load_uvec4(row, columns / 4u + block * 16u); // the scales of the block's runs
        break;
    case Q3_K:
        raw.quants = load_uvec4(row, block * 64u + (c >> 2) * 32u + (c & 1u) * 16u);
        raw.more = load_uvec4(row, columns / 4u + block * 32u + (c & 1u) * 16u);
        break;
    default: // Q4_0, Q4_1, IQ4_NL, Q4_K, IQ4_XS, MXFP4
        raw.quants = load_uvec4(row, chunk * 16u);
        break;
    }
}

// Whether all chunks of a block have one head.
bool has_block_head(uint format) { return format == Q4_K || format == Q5_K || format == Q3_K || format == IQ4_XS; }

// Loads the scales that a chunk needs.
void load_head(uint format, uint64_t row, uint columns, uint chunk, inout Raw raw) {
    uint block = chunk >> 3, c = chunk & 7u, blocks = columns >> 8;
    switch (format) {
    case Q4_0: case IQ4_NL:
        raw.head.x = load_u16(row, columns / 2u + chunk * 2u);
        break;
    case Q4_1:
        raw.head.x = load_u32(row, columns / 2u + chunk * 4u);
        break;
    case Q5_0:
        raw.head.x = load_u16(row, columns / 2u + pad16(columns / 8u) + chunk * 2u);
        break;
    case Q5_1:
        raw.head.x = load_u32(row, columns / 2u + pad16(columns / 8u) + chunk * 4u);
        break;
    case Q8_0:
        raw.head.x = load_u16(row, columns + chunk * 2u);
        break;
    case Q4_K:
        raw.head = load_uvec4(row, columns / 2u + block * 16u);
        break;
    case Q5_K:
        raw.head = load_uvec4(row, columns / 2u + columns / 8u + block * 16u);
        break;
    case Q6_K:
        raw.head.xy = load_uvec2(row, columns / 2u + columns / 4u + block * 16u + (c >> 2) * 8u);
        raw.head.z = load_u16(row, columns / 2u + columns / 4u + columns / 16u + block * 2u);
        break;
    case Q2_K:
        raw.head.x = load_u32(row, columns / 4u + columns / 16u + block * 4u);
        break;
    case Q3_K:
        raw.head.x = load_u32(row, columns / 4u + columns / 8u + block * 12u);
        raw.head.y = load_u32(row, columns / 4u + columns / 8u + block * 12u + 4u);
        raw.head.z = load_u32(row, columns / 4u + columns / 8u + block * 12u + 8u);
        raw.head.w = load_u16(row, columns / 4u + columns / 8u + pad16(blocks * 12u) + block * 2u);
        break;
    case IQ4_XS:
        raw.head.xy = load_uvec2(row, columns / 2u + block * 8u);
        break;
    case MXFP4:
        raw.head.x = load_u16(row, columns / 2u + (chunk & ~1u)) >> (8u * (chunk & 1u)); // above the exponent of an even chunk is that of the next
        break;
    }
}

Raw load_raw(uint format, uint64_t row, uint columns, uint chunk) {
    Raw raw = Raw(uvec4(0), uvec4(0), uvec4(0));
    load_quants(format, row, columns, chunk, raw);
    load_head(format, row, columns, chunk, raw);
    return raw;
}

// The quantised values of a chunk's two runs as signed bytes, and (scale, offset) of each run.
struct Chunk {
    uvec4 a;
    uvec4 b;
    vec2 a_scale;
    vec2 b_scale;
};

// Four unsigned bytes below 128 minus `center` (at most 64), as signed bytes.
uvec4 centered(uvec4 bytes, uint center) {
    return (bytes + (0x80u - center) * 0x01010101u) ^ 0x80808080u;
}
// Moves bit i of the low nibble to bit 4 of byte i: the fifth bits of four 5-bit values.
uint fifth_bits(uint nibble) {
    return ((nibble & 1u) << 4) | ((nibble & 2u) << 11) | ((nibble & 4u) << 18) | ((nibble & 8u) << 25);
}
uvec4 fifth_bits4(uint bits) {
    return uvec4(fifth_bits(bits), fifth_bits(bits >> 4), fifth_bits(bits >> 8), fifth_bits(bits >> 12));
}
int signed_byte(uint word, uint index) { return bitfieldExtract(int(word), int(8u * index), 8); }
// Entry `nibble` of a table of sixteen bytes.
uint table_byte(uvec4 table, uint nibble) {
    uint low = (nibble & 4u) != 0u ? table.y : table.x;
    uint high = (nibble & 4u) != 0u ? table.w : table.z;
    return (((nibble & 8u) != 0u ? high : low) >> (8u * (nibble & 3u))) & 0xffu;
}
uint table_word(uvec4 table, uint nibbles) {
    return table_byte(table, nibbles) | (table_byte(table, nibbles >> 8) << 8) | (table_byte(table, nibbles >> 16) << 16)
        | (table_byte(table, nibbles >> 24) << 24);
}
uvec4 looked_up(uvec4 table, uvec4 nibbles) {
    return uvec4(table_word(table, nibbles.x), table_word(table, nibbles.y), table_word(table, nibbles.z), table_word(table, nibbles.w));
}
// Values of the non-linear 4-bit formats (ggml's tables): -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113.
const uvec4 IQ4_TABLE = uvec4(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
// The bias of `biased_values`.
const int MXFP4_BIAS = 14;
// Twice the values of MXFP4, plus MXFP4_BIAS, of the codes in the low nibbles of the words' bytes, and of those in the high ones. On a device codes are numbered
// such (`formats::device_codes`) that this is the code itself, plus 13 where of bit 0 and the complements of bits 1 and 3 two or three are set.
void biased_values(uvec4 codes, out uvec4 low, out uvec4 high) {
    uvec4 second = codes >> 1, fourth = codes >> 3;
    uvec4 raised = (codes & ~(second & fourth)) | ~(second | fourth); // bit 0 of each nibble
    low = (codes & 0x0f0f0f0fu) + (raised & 0x01010101u) * 13u;
    high = ((codes >> 4) & 0x0f0f0f0fu) + ((raised >> 4) & 0x01010101u) * 13u;
}

// The scales (x, y) and minimums (z, w) of sub-blocks 2 * pair and 2 * pair + 1 of a Q4_K or Q5_K block, from its head: two halves, then
// eight 6-bit scales and eight 6-bit minimums in 12 bytes. The first four of each are whole bytes; the last four have their low nibbles in the
// last four bytes and their high bits on top of the first four.
uvec4 k_integers(uvec4 head, uint pair) {
    uint shift = 16u * (pair & 1u);
    uint scales = head.y >> shift, minimums = head.z >> shift, low = head.w >> shift;
    bool last = pair >= 2u;
    scales = last ? (low & 0x0f0fu) | ((scales >> 2) & 0x3030u) : scales & 0x3f3fu;
    minimums = last ? ((low >> 4) & 0x0f0fu) | ((minimums >> 2) & 0x3030u) : minimums & 0x3f3fu;
    return uvec4(scales & 0xffu, scales >> 8 & 0xffu, minimums & 0xffu, minimums >> 8 & 0xffu);
}
// Effective scales and (negative) offsets of groups 2 * pair and 2 * pair + 1 of a Q4_K or Q5_K block, from its head.
vec4 k_scales_offsets(uvec4 head, uint pair) {
    uvec4 integers = k_integers(head, pair);
    vec2 of_block = half_pair(head.x);
    precise vec2 scale = of_block.x * vec2(integers.xy);
    precise vec2 offset = of_block.y * vec2(integers.zw);
    return vec4(scale.x, -offset.x, scale.y, -offset.y);
}
// The scale and the minimum of run r, 0 to 15, of a Q2_K block, as integers from 0 to 15.
uvec2 q2_integers(Raw raw, uint r) {
    uint both = (raw.more[r >> 2] >> (8u * (r & 3u))) & 0xffu;
    return uvec2(both & 15u, both >> 4);
}
// What an element of run r of a Q2_K block is made of: its code times the first component, plus the second.
vec2 q2_scale_offset(Raw raw, uint r) {
    vec2 scales = half_pair(raw.head.x), integers = vec2(q2_integers(raw, r));
    precise float scale = scales.x * integers.x;
    precise float offset = scales.y * integers.y;
    return vec2(scale, -offset);
}
// The scale of run r, 0 to 15, of a Q3_K block, as an integer from -32 to 31. The sixteen scales have 6 bits: eight bytes hold their low nibbles,
// and four bytes their high pairs of bits.
int q3_integer(Raw raw, uint r) {
    uint low = ((r & 4u) != 0u ? raw.head.y : raw.head.x) >> (8u * (r & 3u) + 4u * (r >> 3));
    uint high = raw.head.z >> (8u * (r & 3u) + 2u * (r >> 2));
    return int((low & 15u) | ((high & 3u) << 4)) - 32;
}
// What an element of run r of a Q3_K block is made of: its code times the first component; the second, an offset, is 0.
vec2 q3_scale(Raw raw, uint r) {
    precise float scale = half_value(raw.head.w) * float(q3_integer(raw, r));
    return vec2(scale, 0.0);
}
// The scale of sub-block c, 0 to 7, of an IQ4_XS block, as an integer from -32 to 31. The eight scales have 6 bits: four bytes hold their low nibbles,
// and two bytes their high pairs of bits.
int iq4_xs_integer(Raw raw, uint c) {
    return int(((raw.head.y >> (4u * c)) & 15u) | (((raw.head.x >> (16u + 2u * c)) & 3u) << 4)) - 32;
}

// Formats with a scale for 256 elements and small integers for their sub-blocks; the other quantised ones have a scale for 32.
bool has_sub_blocks(uint format) { return has_k_pairs(format) || format == IQ4_XS; }
bool has_minimums(uint format) { return format == Q2_K || format == Q4_K || format == Q5_K; }
// Those of them whose sums over a group need more than 32 bits.
bool has_apart_planes(uint format) { return format == Q5_K || format == Q6_K || format == IQ4_XS; }

// The integer scales and minimums of a chunk's two runs, in formats that have sub-blocks.
struct IntegerScales {
    ivec2 scale;
    ivec2 minimum;
};
IntegerScales integer_scales(uint format, Raw raw, uint chunk) {
    uint c = chunk & 7u;
    switch (format) {
    case Q4_K: case Q5_K: {
        ivec4 integers = ivec4(k_integers(raw.head, c >> 1));
        return IntegerScales(integers.xy, integers.zw);
    }
    case Q6_K:
        return IntegerScales(ivec2(signed_byte(raw.head.x, c & 3u), signed_byte(raw.head.y, c & 3u)), ivec2(0));
    case Q2_K: {
        uint run = chunk_runs(format, c).x;
        uvec2 a = q2_integers(raw, run), b = q2_integers(raw, run + 2u);
        return IntegerScales(ivec2(a.x, b.x), ivec2(a.y, b.y));
    }
    case Q3_K: {
        uint run = chunk_runs(format, c).x;
        return IntegerScales(ivec2(q3_integer(raw, run), q3_integer(raw, run + 2u)), ivec2(0));
    }
    default: // IQ4_XS
        return IntegerScales(ivec2(iq4_xs_integer(raw, c)), ivec2(0));
    }
}
// The minimums of the 16 runs of a block, as bytes, in formats that have minimums.
uvec4 run_minimums(uint format, Raw raw) {
    if (format == Q2_K) return (raw.more >> 4) & 0x0f0f0f0fu;
    // Q4_K and Q5_K have one for two runs; see `k_integers`.
    uint first = raw.head.z & 0x3f3f3f3fu, last = ((raw.head.w >> 4) & 0x0f0f0f0fu) | ((raw.head.z >> 2) & 0x30303030u);
    uvec4 pairs = uvec4(first, first >> 16, last, last >> 16);
    return (pairs & 0xffu) * 0x101u | ((pairs >> 8) & 0xffu) * 0x1010000u;
}
// The word with the halves of such a block: its scale, and that of its minimums; and the halves.
uint block_head(uint format, Raw raw) {
    switch (format) {
    case Q6_K: return raw.head.z;
    case Q3_K: return raw.head.w;
    case IQ4_XS: return raw.head.x & 0xffffu;
    default: return raw.head.x;
    }
}
vec2 block_halves(uint format, uint head) { return has_minimums(format) ? half_pair(head) : vec2(half_value(head), 0.0); }

Chunk unpack(uint format, Raw raw, uint chunk) {
    Chunk k;
    uint c = chunk & 7u;
    uvec4 low = raw.quants & 0x0f0f0f0fu;
    uvec4 high = (raw.quants >> 4) & 0x0f0f0f0fu;
    switch (format) {
    case Q4_0:
        k.a = centered(low, 8u);
        k.b = centered(high, 8u);
        k.a_scale = vec2(half_value(raw.head.x), 0.0);
        k.b_scale = k.a_scale;
        break;
    case Q4_1:
        k.a = low;
        k.b = high;
        k.a_scale = half_pair(raw.head.x);
        k.b_scale = k.a_scale;
        break;
    case Q5_0:
        k.a = centered(low | fifth_bits4(raw.more.x), 16u);
        k.b = centered(high | fifth_bits4(raw.more.x >> 16), 16u);
        k.a_scale = vec2(half_value(raw.head.x), 0.0);
        k.b_scale = k.a_scale;
        break;
    case Q5_1:
        k.a = low | fifth_bits4(raw.more.x);
        k.b = high | fifth_bits4(raw.more.x >> 16);
        k.a_scale = half_pair(raw.head.x);
        k.b_scale = k.a_scale;
        break;
    case Q8_0:
        k.a = raw.quants;
        k.b = raw.more;
        k.a_scale = vec2(half_value(raw.head.x), 0.0);
        k.b_scale = k.a_scale;
        break;
    case Q4_K: {
        vec4 pair = k_scales_offsets(raw.head, c >> 1);
        k.a = low;
        k.b = high;
        k.a_scale = pair.xy;
        k.b_scale = pair.zw;
        break;
    }
    case Q5_K: {
        uint g = (c >> 1) * 2u;
        vec4 pair = k_scales_offsets(raw.head, c >> 1);
        k.a = low | (((raw.more >> g) & 0x01010101u) << 4);
        k.b = high | (((raw.more >> (g + 1u)) & 0x01010101u) << 4);
        k.a_scale = pair.xy;
        k.b_scale = pair.zw;
        break;
    }
    case Q6_K: {
        uint sub = c & 3u, shift = (sub >> 1) * 2u;
        k.a = centered(low | (((raw.more >> shift) & 0x03030303u) << 4), 32u);
        k.b = centered(high | (((raw.more >> (shift + 4u)) & 0x03030303u) << 4), 32u);
        float d = half_value(raw.head.z);
        k.a_scale = vec2(d * float(signed_byte(raw.head.x, sub)), 0.0);
        k.b_scale = vec2(d * float(signed_byte(raw.head.y, sub)), 0.0);
        break;
    }
    case Q2_K: {
        uint shift = ((c >> 1) & 1u) * 4u, run = chunk_runs(format, c).x;
        k.a = (raw.quants >> shift) & 0x03030303u;
        k.b = (raw.quants >> (shift + 2u)) & 0x03030303u;
        k.a_scale = q2_scale_offset(raw, run);
        k.b_scale = q2_scale_offset(raw, run + 2u);
        break;
    }
    case Q3_K: {
        uint shift = ((c >> 1) & 1u) * 4u, run = chunk_runs(format, c).x;
        uint bit = (c >> 2) * 4u + ((c >> 1) & 1u) * 2u;
        k.a = centered(((raw.quants >> shift) & 0x03030303u) | (((raw.more >> bit) & 0x01010101u) << 2), 4u);
        k.b = centered(((raw.quants >> (shift + 2u)) & 0x03030303u) | (((raw.more >> (bit + 1u)) & 0x01010101u) << 2), 4u);
        k.a_scale = q3_scale(raw, run);
        k.b_scale = q3_scale(raw, run + 2u);
        break;
    }
    case IQ4_NL:
        k.a = looked_up(IQ4_TABLE, low);
        k.b = looked_up(IQ4_TABLE, high);
        k.a_scale = vec2(half_value(raw.head.x), 0.0);
        k.b_scale = k.a_scale;
        break;
    case IQ4_XS: {
        k.a = looked_up(IQ4_TABLE, low);
        k.b = looked_up(IQ4_TABLE, high);
        precise float scale = half_value(raw.head.x & 0xffffu) * float(iq4_xs_integer(raw, c));
        k.a_scale = vec2(scale, 0.0);
        k.b_scale = k.a_scale;
        break;
    }
    default: { // MXFP4: codes are doubled values, so the scale is half of 2^(e - 127)
        biased_values(raw.quants, k.a, k.b);
        k.a = centered(k.a, uint(MXFP4_BIAS));
        k.b = centered(k.b, uint(MXFP4_BIAS));
        uint e = raw.head.x & 0xffu;
        k.a_scale = vec2(uintBitsToFloat(e < 2u ? 0x00200000u << e : (e - 1u) << 23), 0.0);
        k.b_scale = k.a_scale;
        break;
    }
    }
    return k;
}

vec4 signed_bytes(uint word) {
    int w = int(word);
    return vec4(bitfieldExtract(w, 0, 8), bitfieldExtract(w, 8, 8), bitfieldExtract(w, 16, 8), bitfieldExtract(w, 24, 8));
}

// Elements [4 * part, 4 * part + 4) of a row in one of the float formats.
vec4 load_floats(uint format, uint64_t row, uint part) {
    if (format == F32) return load_vec4(row, part * 16u);
    uvec2 w = load_uvec2(row, part * 8u);
    if (format == F16) return vec4(half_pair(w.x), half_pair(w.y));
    return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
}

// The exponent of an MXFP4 block's scale, a power of two that may be subnormal.
int mxfp4_exponent(float scale) {
    uint bits = floatBitsToUint(scale);
    return (bits >= 0x00800000u ? int(bits >> 23) : int(bits >> 22) - 1) - 127;
}
// k times the scale of an MXFP4 block, by integer operations: its exponent can make the product subnormal, which a device may flush.
float mxfp4_value(int k, float scale) {
    int exponent = mxfp4_exponent(scale) + 127; // of 2^(exponent - 127)
    uint magnitude = floatBitsToUint(float(abs(k)));
    int field = int(magnitude >> 23) + exponent - 127;
    uint value = magnitude + (uint(exponent - 127) << 23);
    if (field < 1) value = ((magnitude & 0x7fffffu) | 0x800000u) >> uint(1 - field);
    if (field > 254) value = 0x7f800000u;
    if (k == 0) value = 0u;
    return uintBitsToFloat(value | (k < 0 ? 0x80000000u : 0u));
}

// Four values of a run from their quantised word. The product is rounded before the sum, as the host does it.
vec4 dequantised(uint format, uint word, vec2 scale) {
    if (format == MXFP4) {
        ivec4 k = ivec4(signed_byte(word, 0u), signed_byte(word, 1u), signed_byte(word, 2u), signed_byte(word, 3u));
        return vec4(mxfp4_value(k.x, scale.x), mxfp4_value(k.y, scale.x), mxfp4_value(k.z, scale.x), mxfp4_value(k.w, scale.x));
    }
    precise vec4 product = signed_bytes(word) * scale.x;
    if (!has_offset(format)) return product;
    precise vec4 sum = product + scale.y;
    return sum;
}
