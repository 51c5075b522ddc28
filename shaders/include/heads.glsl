// Query, key and value heads: how queries and keys are prepared, that is normalised and rotated, and how keys and values are stored in the KV
// cache.
//
// One subgroup takes a head; each lane has OWN_PAIRS pairs of its elements. `append` and `attention` share this code, so that a row of the cache
// has the same bits whichever of them wrote it.
//
// Whoever includes this has `cache_rows.glsl` and the specialisation constants HEAD_SIZE, KEY_FORMAT, VALUE_FORMAT, PAIRING, NORMALISE, ROTATED and
// EPSILON.
// (Rotary embedding: Su et al., RoFormer, 2021; its cosines and sines come from a table of the host's, because Vulkan promises too little
// precision for long contexts.)

// Values of PAIRING: element i rotates with i + ROTATED / 2, or 2i with 2i + 1.
const uint HALVES = 0, INTERLEAVED = 1;

const uint OWN_PAIRS = (HEAD_SIZE / 2 + SUBGROUP - 1) / SUBGROUP; // pairs of a head's elements that a lane has

// Stores element `index` of a head whose row begins at `row`.
void store_cache(uint64_t row, uint format, uint index, float value) {
    if (format == CACHE_F16) store_u16(row, index * 2, half_bits(value));
    else store_f32(row, index * 4, value);
}

// The elements of pair p of a head: those that rotate together, then the others by twos.
uvec2 pair_elements(uint p) {
    if (p < ROTATED / 2) return PAIRING == HALVES ? uvec2(p, p + ROTATED / 2) : uvec2(2 * p, 2 * p + 1);
    return uvec2(2 * p, 2 * p + 1);
}
// Loads a lane's pairs of the head at `head`: pairs l, l + SUBGROUP and so on by lane l.
void load_pairs(uint64_t head, out vec2 pairs[OWN_PAIRS]) {
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uint p = gl_SubgroupInvocationID + n * SUBGROUP;
        uvec2 i = pair_elements(p);
        pairs[n] = p < HEAD_SIZE / 2 ? vec2(load_f32(head, i.x * 4), load_f32(head, i.y * 4)) : vec2(0.0);
    }
}

// Normalises and rotates a head, by one subgroup, which gets its pairs as `load_pairs` gives them. `norm` has the weights of the normalisation, and
// `rotation` the table of cosines and sines, [context, ROTATED / 2] pairs. Without contractions, because the compiler may repeat this code for rounds of a
// loop, and several kernels contain it: what a row of the cache holds must not depend on the code that wrote it.
void prepare_head(uint64_t head, uint64_t norm, uint64_t rotation, uint position, out vec2 pairs[OWN_PAIRS]) {
    vec2 weight[OWN_PAIRS], angle[OWN_PAIRS];
    uint64_t angles = rotation + uint64_t(position) * uint64_t(ROTATED * 4);
    load_pairs(head, pairs);
    precise float squares = 0.0;
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uint p = gl_SubgroupInvocationID + n * SUBGROUP;
        uvec2 i = pair_elements(p);
        weight[n] = p < HEAD_SIZE / 2 && NORMALISE == 1 ? vec2(load_f32(norm, i.x * 4), load_f32(norm, i.y * 4)) : vec2(1.0);
        angle[n] = p < ROTATED / 2 ? uintBitsToFloat(load_uvec2(angles, p * 8)) : vec2(1.0, 0.0);
        precise vec2 square = pairs[n] * pairs[n];
        squares += square.x;
        squares += square.y;
    }
    precise float scale = NORMALISE == 1 ? 1.0 / sqrt(subgroupAdd(squares) / float(HEAD_SIZE) + EPSILON) : 1.0;
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        precise vec2 x = NORMALISE == 1 ? pairs[n] * scale * weight[n] : pairs[n];
        precise vec2 rotated = vec2(x.x * angle[n].x - x.y * angle[n].y, x.x * angle[n].y + x.y * angle[n].x);
        pairs[n] = rotated;
    }
}

// Sees to it that the cache can hold all elements of a value head as finite numbers, which a weight of 0 makes 0. If it cannot, the value becomes zeros and
// its key NaN: so is then the result of whoever attends to them, and of nobody else.
void make_finite(inout vec2 key[OWN_PAIRS], inout vec2 value[OWN_PAIRS]) {
    uint highest = 0;
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uvec2 magnitude = floatBitsToUint(value[n]) & 0x7fffffffu;
        highest = max(highest, max(magnitude.x, magnitude.y));
    }
    if (subgroupMax(highest) < (VALUE_FORMAT == CACHE_F16 ? 0x477ff000u : 0x7f800000u)) return; // halves end below 65,520
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        key[n] = vec2(uintBitsToFloat(0x7fc00000u));
        value[n] = vec2(0.0);
    }
}
// Stores a prepared key head and its value head in the rows of the cache at `key_row` and `value_row`, by one subgroup.
void store_entry(uint64_t key_row, uint64_t value_row, vec2 key[OWN_PAIRS], vec2 value[OWN_PAIRS]) {
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uint p = gl_SubgroupInvocationID + n * SUBGROUP;
        if (p >= HEAD_SIZE / 2) continue;
        uvec2 i = pair_elements(p);
        store_cache(key_row, KEY_FORMAT, i.x, key[n].x);
        store_cache(key_row, KEY_FORMAT, i.y, key[n].y);
        store_cache(value_row, VALUE_FORMAT, i.x, value[n].x);
        store_cache(value_row, VALUE_FORMAT, i.y, value[n].y);
    }
}
