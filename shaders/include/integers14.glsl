// Products of quantised weights with activations of 14 bits, as docs/arithmetic.md defines them: exact integers within a group of 256
// elements, one sequence of float operations from group to group. The Rust twin is `reference::quantised_product`.
//
// Whoever includes this has the specialisation constants ACT and COLUMNS, and defines VECTORS, the number of vectors that a workgroup stages.
// A vector's groups are numbered from `vector * GROUPS` on, its runs from `vector * PADDED_RUNS` on: the last group is filled up with zeros.

const uint GROUPS = (COLUMNS + 255) / 256;
const uint PADDED_RUNS = GROUPS * 16;

const uint STAGED_14 = ACT == ACT_Q14 ? VECTORS * PADDED_RUNS : 1;
shared uvec4 staged14_high[STAGED_14]; // q = 128 * high + low
shared uvec4 staged14_low[STAGED_14];
shared int staged14_sum[STAGED_14];    // of a run's integers
shared float staged14_scale[ACT == ACT_Q14 ? VECTORS * GROUPS : 1];

// 1 / x by an estimate and four steps of Newton's method; a division may differ from one device to another.
float reciprocal14(float x) {
    precise float y = uintBitsToFloat(0x7ef311c7u - floatBitsToUint(x));
    // Not unrolled here: the optimiser of SPIR-V drops `precise` from all copies of a loop's body but the first.
    for (uint i = 0; i < 4; i++) {
        precise float product = x * y;
        precise float rest = 2.0 - product;
        y = y * rest;
    }
    return y;
}

// Rounds part `part` (four elements) of a vector of a group whose largest magnitude has the bits `highest`, and stages it. Four neighbouring
// lanes take the parts of a run.
void stage14(uint vector, uint part, vec4 v, uint highest) {
    float largest = uintBitsToFloat(highest);
    bool finite = highest < 0x7f800000u, usable = finite && highest >= 0x1f800000u; // 2^-64
    precise float scale = largest * uintBitsToFloat(0x39000400u);
    float inverse = reciprocal14(usable ? scale : 1.0);
    precise vec4 scaled = v * inverse;
    ivec4 q = usable ? ivec4(roundEven(scaled)) : ivec4(0);
    ivec4 low = ((q + 64) & 127) - 64;
    int sum = q.x + q.y + q.z + q.w;
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    uint run = vector * PADDED_RUNS + part / 4u;
    staged14_high[run][part % 4u] = packed_bytes((q - low) >> 7);
    staged14_low[run][part % 4u] = packed_bytes(low);
    if (part % 4u == 0u) staged14_sum[run] = sum;
    if (part % 64u == 0u) staged14_scale[vector * GROUPS + part / 64u] = finite ? (usable ? scale : 0.0) : largest;
}

const uint PARTS_14 = PADDED_RUNS * 4;
// The lanes that take the parts of one group one after the other, and the maxima that each of them reads.
const uint LANES_OF_GROUP = SUBGROUP < 16 ? SUBGROUP : 16;

// Stages a workgroup's vectors, each `stride` bytes behind the one before, from the form Q14. Every thread takes part; a barrier has to follow.
void stage_vectors14(uint64_t x, uint stride) {
    [[unroll]] for (uint first = 0; first < VECTORS * PARTS_14; first += gl_WorkGroupSize.x) {
        uint at = first + lane_index();
        uint vector = min(at / PARTS_14, VECTORS - 1u), part = at % PARTS_14;
        uint64_t from = x + uint64_t(vector * stride);
        bool real = at < VECTORS * PARTS_14 && part < COLUMNS / 4;
        vec4 v = real ? load_vec4(from, part * 16u) : vec4(0.0);
        // The subgroup's parts are of one group, or a group's parts are of several subgroups: 64 is a multiple of the subgroup or the other way round.
        uint group = part / 64u, highest = 0u;
        [[unroll]] for (uint n = 0; n < 16 / LANES_OF_GROUP; n++) {
            uint run = group * 16u + gl_SubgroupInvocationID % LANES_OF_GROUP + n * LANES_OF_GROUP;
            if (run < COLUMNS / 16) highest = max(highest, load_u32(from, COLUMNS * 4u + run * 4u));
        }
        [[unroll]] for (uint apart = 1; apart < LANES_OF_GROUP; apart *= 2) highest = max(highest, subgroupShuffleXor(highest, apart));
        if (at < VECTORS * PARTS_14) stage14(vector, part, v, highest);
    }
}

// Stages the operand of a matrix product: from the form Q14, or, where NORM is 1, normalised from f32. Every thread takes part; a barrier has to
// follow.
void stage_operand14(uint64_t x, uint64_t norm, float epsilon) {
    if (NORM == 0) {
        stage_vectors14(x, 0u);
        return;
    }
    float squares = 0.0;
    for (uint part = lane_index(); part < COLUMNS / 4; part += gl_WorkGroupSize.x) {
        vec4 v = load_vec4(x, part * 16u);
        squares += dot(v, v);
    }
    float norm_scale = 1.0 / sqrt(workgroup_sum(squares) / float(COLUMNS) + epsilon);
    // A subgroup takes whole groups: each of its lanes neighbouring parts one after the other, so that the largest magnitude is the subgroup's.
    const uint AT_A_TIME = SUBGROUP < 64 ? 64 / SUBGROUP : 1;
    for (uint group = gl_SubgroupID; group < GROUPS; group += gl_WorkGroupSize.x / SUBGROUP) {
        vec4 v[AT_A_TIME];
        uint highest = 0u;
        [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) {
            uint part = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
            precise vec4 normalised = vec4(0.0);
            if (part < COLUMNS / 4) normalised = load_vec4(x, part * 16u) * norm_scale;
            if (part < COLUMNS / 4) normalised = normalised * load_vec4(norm, part * 16u);
            v[n] = normalised;
            uvec4 bits = floatBitsToUint(normalised) & 0x7fffffffu;
            highest = max(highest, max(max(bits.x, bits.y), max(bits.z, bits.w)));
        }
        highest = subgroupMax(highest);
        [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) stage14(0u, group * 64u + n * SUBGROUP + gl_SubgroupInvocationID, v[n], highest);
    }
}

// Whether a product with scales of MXFP4 counts as 0: below 2^-102, floats that devices may flush are not far.
bool negligible14(float value) { return (floatBitsToUint(value) & 0x7fffffffu) < 0x0c800000u; }

// A lane's part of a group's sums: with the scales of the chunk's runs, and with their minimums. x: the sum, or that of the high plane where
// the planes stay apart; y: that of the minimums; z: that of the low plane.
ivec3 group_part14(uint format, Raw raw, uint chunk, uint first_run) {
    Chunk w = unpack(format, raw, chunk);
    IntegerScales s = integer_scales(format, raw, chunk);
    uvec2 runs = first_run + chunk_runs(format, chunk);
    ivec2 high = ivec2(dot16(w.a, staged14_high[runs.x]), dot16(w.b, staged14_high[runs.y]));
    ivec2 low = ivec2(dot16(w.a, staged14_low[runs.x]), dot16(w.b, staged14_low[runs.y]));
    ivec3 part = ivec3(0);
    if (has_apart_planes(format)) {
        part.x = s.scale.x * high.x + s.scale.y * high.y;
        part.z = s.scale.x * low.x + s.scale.y * low.y;
    } else {
        ivec2 both = high * 128 + low;
        part.x = s.scale.x * both.x + s.scale.y * both.y;
    }
    if (has_minimums(format)) part.y = s.minimum.x * staged14_sum[runs.x] + s.minimum.y * staged14_sum[runs.y];
    return part;
}

// What is added for a block of 32 with a scale of its own: the product of its codes, and its offset.
vec2 block_terms14(uint format, Raw raw, uint chunk, uint first_run) {
    Chunk w = unpack(format, raw, chunk);
    uint run = first_run + 2u * chunk;
    int high = dot16(w.a, staged14_high[run]) + dot16(w.b, staged14_high[run + 1u]);
    int low = dot16(w.a, staged14_low[run]) + dot16(w.b, staged14_low[run + 1u]);
    precise float product;
    if (format == MXFP4) {
        // Two normal factors: the scale itself may be subnormal.
        int exponent = int(raw.head.x) - 128, first = exponent >> 1;
        precise float half_way = float(high * 128 + low) * uintBitsToFloat(uint(first + 127) << 23);
        product = half_way * uintBitsToFloat(uint(exponent - first + 127) << 23);
        product = negligible14(product) ? 0.0 : product;
    } else {
        product = w.a_scale.x * float(high * 128 + low);
    }
    precise float offset = w.a_scale.y * float(staged14_sum[run] + staged14_sum[run + 1u]);
    return vec2(product, has_offset(format) ? offset : 0.0);
}

// Of eight items each lane has a part. Lane l ends with the sums of item l % 8 over the eight lanes that begin at a multiple of 8.
ivec3 sums_of_eight(ivec3 items[8]) {
    [[unroll]] for (uint apart = 4; apart > 0; apart /= 2) {
        bool upper = (gl_SubgroupInvocationID & apart) != 0u;
        [[unroll]] for (uint i = 0; i < apart; i++) {
            ivec3 kept = upper ? items[i + apart] : items[i], sent = upper ? items[i] : items[i + apart];
            items[i] = kept + subgroupShuffleXor(sent, apart);
        }
    }
    return items[0];
}

// Item l % 8 of lane l's own.
vec2 own_of_eight(vec2 items[8]) {
    [[unroll]] for (uint apart = 4; apart > 0; apart /= 2) {
        bool upper = (gl_SubgroupInvocationID & apart) != 0u;
        [[unroll]] for (uint i = 0; i < apart; i++) items[i] = upper ? items[i + apart] : items[i];
    }
    return items[0];
}

// The terms of a block that is not there: adding them changes no float, not even a zero's sign.
const vec2 NO_TERMS = vec2(-0.0);

// Of eight items each lane has the terms of one block. Lane l ends with the sum of item l % 8: the terms of the eight lanes, in their order.
float terms_of_eight(vec2 items[8], bool offsets) {
    [[unroll]] for (uint apart = 4; apart > 0; apart /= 2) {
        bool upper = (gl_SubgroupInvocationID & apart) != 0u;
        [[unroll]] for (uint i = 0; i < 8; i++) {
            if ((i & apart) != 0u) continue;
            vec2 received = subgroupShuffleXor(upper ? items[i] : items[i + apart], apart);
            if (upper) items[i] = received; else items[i + apart] = received;
        }
    }
    precise float sum = items[0].x;
    if (offsets) sum = sum + items[0].y;
    for (uint i = 1; i < 8; i++) { // not unrolled here, as in `reciprocal14`
        sum = sum + items[i].x;
        if (offsets) sum = sum + items[i].y;
    }
    return sum;
}

// The value of a group from its sums, without the scale of the activations.
float group_value14(uint format, ivec3 sums, vec2 halves) {
    precise float sum = float(sums.x);
    if (has_apart_planes(format)) {
        precise float high = 128.0 * sum;
        sum = high + float(sums.z);
    }
    precise float value = halves.x * sum;
    if (has_minimums(format)) {
        precise float minimum = halves.y * float(sums.y);
        value = value - minimum;
    }
    return value;
}

// The value of a group with the scale of the activations.
float scaled_value14(uint format, float value, float scale) {
    precise float scaled = scale * value;
    return format == MXFP4 && negligible14(scaled) ? 0.0 : scaled;
}
