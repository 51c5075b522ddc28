// Products of quantised weights with activations of 14 bits, as docs/arithmetic.md defines them: exact integers within a group of 256
// elements, one sequence of float operations for each group. The Rust twin is `reference::quantised_product`.
//
// A lane takes a quarter of a group, 64 weights: two chunks. Four neighbouring lanes take the quarters of a group. What a lane has of a row's
// group is an item. Up to four items, of several rows or groups, are summed over the four lanes at once: each lane ends with the sums of its own
// item, `own_item`.

// Lanes that share a row's quarters, one after the other in each step: no more than are needed for them, so that a subgroup takes several rows of
// narrow matrices at a time.
const uint ROW_LANES = GROUPS * 4 > SUBGROUP / 2 ? SUBGROUP : GROUPS * 4 > SUBGROUP / 4 ? SUBGROUP / 2
    : GROUPS * 4 > SUBGROUP / 8 ? SUBGROUP / 4 : GROUPS * 4 > SUBGROUP / 16 ? SUBGROUP / 8 : SUBGROUP / 16;
const uint LANE_ROWS = SUBGROUP / ROW_LANES; // rows that a subgroup takes side by side
const uint STEPS = (GROUPS * 4 + ROW_LANES - 1) / ROW_LANES;
uint lane_row() { return gl_SubgroupInvocationID / ROW_LANES; }
uint row_lane() { return gl_SubgroupInvocationID % ROW_LANES; }

// A quarter of a group, 64 weights of one row, as a lane has loaded it: two neighbouring chunks, before anything is computed from them.
struct Quarter {
    Raw first;
    Raw second;
};
Quarter load_quarter(uint format, uint64_t row, uint columns, uint quarter) {
    // Lanes behind the end load what the last one does.
    uint last = columns / 32u - 1u;
    Quarter weights;
    weights.first = load_raw(format, row, columns, min(2u * quarter, last));
    weights.second = load_raw(format, row, columns, min(2u * quarter + 1u, last));
    if (has_sub_blocks(format)) weights.second.head = weights.first.head;
    if (format == MXFP4) weights.second.head.x = weights.first.head.x >> 8;
    return weights;
}

// The activations of a quarter: of the first chunk's two runs, then of the second's. Sums of runs are there for formats with an offset or a bias.
struct QuarterInput {
    uvec4 high[4];
    uvec4 low[4];
    ivec4 sums;
};
// The sums of the runs of a quarter, in the order of `QuarterInput`; 0 for formats that need none.
ivec4 quarter_input_sums(uint format, uint64_t x, uint vector, uint quarter) {
    if (!has_offset(format) && format != MXFP4) return ivec4(0);
    ivec4 sums = load_sums(x, vector, quarter);
    return has_k_pairs(format) ? sums.xzyw : sums; // a chunk has runs 0 and 2 of a quarter, or 1 and 3
}
QuarterInput quarter_input(uint format, uint64_t x, uint vector, uint quarter) {
    quarter = min(quarter, GROUPS * 4u - 1u);
    uvec2 first = chunk_runs(format, 2u * quarter), second = chunk_runs(format, 2u * quarter + 1u);
    QuarterInput v;
    load_run(x, vector, first.x, v.high[0], v.low[0]);
    load_run(x, vector, first.y, v.high[1], v.low[1]);
    load_run(x, vector, second.x, v.high[2], v.low[2]);
    load_run(x, vector, second.y, v.high[3], v.low[3]);
    v.sums = quarter_input_sums(format, x, vector, quarter);
    return v;
}

int dot16(uvec4 a, uvec4 b) {
    return dot4(int(a.x), int(b.x), 0) + dot4(int(a.y), int(b.y), 0) + dot4(int(a.z), int(b.z), 0) + dot4(int(a.w), int(b.w), 0);
}

// The weights of a quarter as products take them.
struct Unpacked {
    uvec4 codes[4];  // of the four runs, in the order of `QuarterInput`, as signed bytes; in MXFP4 with MXFP4_BIAS added
    ivec4 scale;     // of the four runs: small integers, in formats with a scale for 256 weights
    ivec4 minimum;   // of the four runs, in those formats that have minimums
    uint head;       // in formats with a scale for 256 weights: the word with the block's halves, see `block_head`
    vec4 block;      // in formats with a scale for 32: scale and offset of the first block, then of the second
};
Unpacked unpack_quarter(uint format, Quarter weights, uint quarter) {
    Chunk first = unpack(format, weights.first, 2u * quarter), second = unpack(format, weights.second, 2u * quarter + 1u);
    Unpacked w;
    w.codes[0] = first.a;
    w.codes[1] = first.b;
    w.codes[2] = second.a;
    w.codes[3] = second.b;
    if (format == MXFP4) {
        biased_values(weights.first.quants, w.codes[0], w.codes[1]);
        biased_values(weights.second.quants, w.codes[2], w.codes[3]);
    }
    w.scale = ivec4(0);
    w.minimum = ivec4(0);
    w.head = 0u;
    if (has_sub_blocks(format)) {
        IntegerScales of_first = integer_scales(format, weights.first, 2u * quarter);
        // In Q4_K and Q5_K both chunks are of the same two sub-blocks.
        bool same_sub_blocks = format == Q4_K || format == Q5_K;
        IntegerScales of_second = same_sub_blocks ? of_first : integer_scales(format, weights.second, 2u * quarter + 1u);
        w.scale = ivec4(of_first.scale, of_second.scale);
        w.minimum = ivec4(of_first.minimum, of_second.minimum);
        w.head = block_head(format, weights.first);
    }
    w.block = vec4(first.a_scale, second.a_scale);
    return w;
}

// An item of a format with a scale for 256. x: the sum with the scales of the sub-blocks, or that of the high bytes where the sums of both stay
// apart; y: that with the minimums; z: that of the low bytes.
ivec3 quarter_sums(uint format, Unpacked w, QuarterInput v) {
    ivec4 high = ivec4(dot16(w.codes[0], v.high[0]), dot16(w.codes[1], v.high[1]), dot16(w.codes[2], v.high[2]), dot16(w.codes[3], v.high[3]));
    ivec4 low = ivec4(dot16(w.codes[0], v.low[0]), dot16(w.codes[1], v.low[1]), dot16(w.codes[2], v.low[2]), dot16(w.codes[3], v.low[3]));
    ivec3 item = ivec3(0);
    if (format == Q4_K || format == Q5_K) {
        // Both chunks are of the same two sub-blocks.
        high.xy += high.zw;
        low.xy += low.zw;
        ivec2 sums = w.minimum.xy * (v.sums.xy + v.sums.zw);
        item.y = sums.x + sums.y;
        sums = w.scale.xy * (has_apart_planes(format) ? high.xy : high.xy * 128 + low.xy);
        item.x = sums.x + sums.y;
        sums = w.scale.xy * low.xy;
        if (has_apart_planes(format)) item.z = sums.x + sums.y;
        return item;
    }
    if (has_minimums(format)) {
        ivec4 sums = w.minimum * v.sums;
        item.y = sums.x + sums.y + sums.z + sums.w;
    }
    ivec4 sums = w.scale * (has_apart_planes(format) ? high : high * 128 + low);
    item.x = sums.x + sums.y + sums.z + sums.w;
    if (has_apart_planes(format)) {
        ivec4 low_sums = w.scale * low;
        item.z = low_sums.x + low_sums.y + low_sums.z + low_sums.w;
    }
    return item;
}

// Whether a product with scales of MXFP4 counts as 0: below 2^-102, floats that devices may flush are not far.
bool negligible(float value) { return abs(value) < uintBitsToFloat(0x0c800000u); }

// What a block of 32 with a scale of its own adds: the product of its codes, `codes`, with its scale; and its offset. A subnormal scale of MXFP4 may count
// as 0 or not: the product is negligible either way, since sums of codes have 22 bits.
vec2 block_terms(uint format, int codes, int sum, vec2 block) {
    if (format == MXFP4) codes -= MXFP4_BIAS * sum;
    precise float product = block.x * float(codes);
    if (format == MXFP4) product = negligible(product) ? 0.0 : product;
    precise float offset = block.y * float(sum);
    return vec2(product, has_offset(format) ? offset : 0.0);
}

// The terms of blocks that are not there: adding them changes no float, not even a zero's sign.
const vec4 NO_TERMS = vec4(-0.0);

// An item of a format with a scale for 32: the terms of the two blocks.
vec4 quarter_terms(uint format, Unpacked w, QuarterInput v, uint quarter) {
    vec4 terms = NO_TERMS;
    if (2u * quarter < COLUMNS / 32u) {
        int high = dot16(w.codes[0], v.high[0]) + dot16(w.codes[1], v.high[1]), low = dot16(w.codes[0], v.low[0]) + dot16(w.codes[1], v.low[1]);
        terms.xy = block_terms(format, high * 128 + low, v.sums.x + v.sums.y, w.block.xy);
    }
    if (2u * quarter + 1u < COLUMNS / 32u) {
        int high = dot16(w.codes[2], v.high[2]) + dot16(w.codes[3], v.high[3]), low = dot16(w.codes[2], v.low[2]) + dot16(w.codes[3], v.low[3]);
        terms.zw = block_terms(format, high * 128 + low, v.sums.z + v.sums.w, w.block.zw);
    }
    return terms;
}

// Which of `count` items, 1 to 4, a lane ends with. Of fewer than three, several lanes end with the same.
uint own_item(uint count) { return count > 2 ? gl_SubgroupInvocationID % 4 : count == 2 ? gl_SubgroupInvocationID % 2 : 0; }

ivec3 sums_of_own(ivec3 items[4], uint count) {
    bool upper = (gl_SubgroupInvocationID & 2u) != 0u;
    if (count > 2) {
        ivec3 sent = upper ? items[0] : items[2];
        items[0] = (upper ? items[2] : items[0]) + subgroupShuffleXor(sent, 2);
        sent = upper ? items[1] : items[3];
        items[1] = (upper ? items[3] : items[1]) + subgroupShuffleXor(sent, 2);
    }
    if (count > 1) {
        upper = (gl_SubgroupInvocationID & 1u) != 0u;
        ivec3 sent = upper ? items[0] : items[1];
        items[0] = (upper ? items[1] : items[0]) + subgroupShuffleXor(sent, 1);
    } else {
        items[0] += subgroupShuffleXor(items[0], 1);
    }
    return count > 2 ? items[0] : items[0] + subgroupShuffleXor(items[0], 2);
}

uint of_own(uint items[4], uint count) {
    if (count == 1) return items[0];
    uint low = (gl_SubgroupInvocationID & 1u) != 0u ? items[1] : items[0];
    if (count == 2) return low;
    uint high = (gl_SubgroupInvocationID & 1u) != 0u ? items[3] : items[2];
    return (gl_SubgroupInvocationID & 2u) != 0u ? high : low;
}

// A sum that the terms of a quarter are added to, in the order of the blocks.
float with_terms(uint format, float before, vec4 terms) {
    precise float sum = before + terms.x;
    if (has_offset(format)) sum = sum + terms.y;
    sum = sum + terms.z;
    if (has_offset(format)) sum = sum + terms.w;
    return sum;
}
// The sum of the terms of an item, in the order of the blocks, which all four lanes get. It goes from lane to lane, each of which adds its own terms.
float sum_of_terms(uint format, vec4 terms) {
    float sum = with_terms(format, NO_TERMS.x, terms);
    for (uint lane = 1; lane < 4; lane++) sum = with_terms(format, subgroupShuffleXor(sum, lane ^ (lane - 1)), terms);
    return subgroupShuffle(sum, gl_SubgroupInvocationID | 3u);
}

// The sum of the terms of a lane's own item, in the order of the blocks.
float terms_of_own(uint format, vec4 items[4], uint count) {
    if (count <= 2) {
        float sum = sum_of_terms(format, items[0]);
        if (count == 1) return sum;
        float other = sum_of_terms(format, items[1]);
        return (gl_SubgroupInvocationID & 1u) != 0u ? other : sum;
    }
    bool upper = (gl_SubgroupInvocationID & 2u) != 0u;
    vec4 received = subgroupShuffleXor(upper ? items[0] : items[2], 2);
    if (upper) items[0] = received; else items[2] = received;
    received = subgroupShuffleXor(upper ? items[1] : items[3], 2);
    if (upper) items[1] = received; else items[3] = received;
    upper = (gl_SubgroupInvocationID & 1u) != 0u;
    received = subgroupShuffleXor(upper ? items[0] : items[1], 1);
    if (upper) items[0] = received; else items[1] = received;
    received = subgroupShuffleXor(upper ? items[2] : items[3], 1);
    if (upper) items[2] = received; else items[3] = received;
    float sum = NO_TERMS.x;
    for (uint lane = 0; lane < 4; lane++) sum = with_terms(format, sum, items[lane]);
    return sum;
}

// The value of a group, without the scale of the activations, from the sums of its item and the halves of its block.
float group_value(uint format, ivec3 sums, uint head) {
    vec2 halves = block_halves(format, head);
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

// Up to four items of a lane, of one format or of two. (Parallel arrays, because compilers keep them in registers.)
struct Items {
    ivec3 sums[4];
    uint heads[4];
    vec4 terms[4];
};
void take_item(inout Items items, uint k, uint format, Unpacked w, QuarterInput v, uint quarter) {
    if (has_sub_blocks(format)) {
        items.sums[k] = quarter_sums(format, w, v);
        items.heads[k] = w.head;
    } else {
        items.terms[k] = quarter_terms(format, w, v, quarter);
    }
}
// What a lane's own of `count` items comes to: the value of the item's group times `scale`, that of the group's activations.
float item_value(Items items, uint count, uint format, float scale) {
    float value = has_sub_blocks(format) ? group_value(format, sums_of_own(items.sums, count), of_own(items.heads, count))
        : terms_of_own(format, items.terms, count);
    precise float scaled = scale * value;
    return format == MXFP4 && negligible(scaled) ? 0.0 : scaled;
}
