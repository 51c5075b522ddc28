// Query, key and value heads: how queries and keys are prepared, that is normalised and rotated, and how keys and values are stored in the KV
// cache.
//
// One subgroup takes a head; each lane has OWN_PAIRS pairs of its elements. `append` and `attention` share this code, so that a row of the cache
// has the same bits whichever of them wrote it.
//
// Whoever includes this has the specialisation constants HEAD_SIZE, KEY_FORMAT, VALUE_FORMAT, PAIRING, NORMALISE, ROTATED, KV_HEADS and EPSILON.
// (Rotary embedding: Su et al., RoFormer, 2021; its cosines and sines come from a table of the host's, because Vulkan promises too little
// precision for long contexts.)

// Values of PAIRING: element i rotates with i + ROTATED / 2, or 2i with 2i + 1.
const uint HALVES = 0, INTERLEAVED = 1;

const uint OWN_PAIRS = (HEAD_SIZE / 2 + SUBGROUP - 1) / SUBGROUP; // pairs of a head's elements that a lane has

// Bytes of an element of the cache, and of a row: of all heads at one position.
uint cache_bytes(uint format) { return format == CACHE_F16 ? 2u : 4u; }
uint cache_row_bytes(uint format) { return KV_HEADS * HEAD_SIZE * cache_bytes(format); }
// A head's part of the cache, and the row of a position in it.
uint64_t cache_of_head(uint64_t cache, uint format, uint kv_head) { return cache + uint64_t(kv_head * HEAD_SIZE * cache_bytes(format)); }
uint64_t cache_row(uint64_t cache, uint format, uint position) { return cache + uint64_t(position) * uint64_t(cache_row_bytes(format)); }
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
// Normalises and rotates a head, by one subgroup: lane l gets pairs l, l + SUBGROUP and so on. `norm` has the weights of the normalisation, and
// `rotation` the table of cosines and sines, [context, ROTATED / 2] pairs. Without contractions, because the compiler may repeat this code for
// rounds of a loop, and several kernels contain it: what a row of the cache holds must not depend on the code that wrote it.
void prepare_head(uint64_t head, uint64_t norm, uint64_t rotation, uint position, out vec2 pairs[OWN_PAIRS]) {
    vec2 weight[OWN_PAIRS], angle[OWN_PAIRS];
    uint64_t angles = rotation + uint64_t(position) * uint64_t(ROTATED * 4);
    precise float squares = 0.0;
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uint p = gl_SubgroupInvocationID + n * SUBGROUP;
        uvec2 i = pair_elements(p);
        bool inside = p < HEAD_SIZE / 2;
        pairs[n] = inside ? vec2(load_f32(head, i.x * 4), load_f32(head, i.y * 4)) : vec2(0.0);
        weight[n] = inside && NORMALISE == 1 ? vec2(load_f32(norm, i.x * 4), load_f32(norm, i.y * 4)) : vec2(1.0);
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

// Stores pair p of a prepared key head, which is inside the head.
void store_key_pair(uint64_t row, uint p, vec2 pair) {
    uvec2 i = pair_elements(p);
    store_cache(row, KEY_FORMAT, i.x, pair.x);
    store_cache(row, KEY_FORMAT, i.y, pair.y);
}
// Stores the value head at `head`, by one subgroup.
void store_value_head(uint64_t row, uint64_t head) {
    for (uint i = gl_SubgroupInvocationID; i < HEAD_SIZE; i += SUBGROUP) store_cache(row, VALUE_FORMAT, i, load_f32(head, i * 4));
}
