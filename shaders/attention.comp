// Attention of one token: normalises and rotates its queries and its key, appends key and value to the cache, attends to the cache, and
// joins the shares.
//
// Workgroup (split, group) takes HEADS query heads that share a key and value head, so that each cached key and value is read once for all of
// them. The context is split over workgroups and their subgroups by tiles of one position a lane; the grid does not depend on the context
// length, so that one recording serves every token, and splits without a tile leave at once. The workgroup of a group that finishes last joins
// the shares, in the order of the splits. Every workgroup prepares the queries for itself; the one whose tile holds the token's position writes
// the cache before it reads it.
// (Rotary embedding: Su et al., RoFormer, 2021; its cosines and sines come from a table of the host's, because Vulkan promises too little
// precision for long contexts. Online softmax: Milakov and Gimelshein, 2018; split over the context: Dao et al., Flash-Decoding, 2023.)
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/cache.glsl"
#include "include/activations.glsl"
#include "include/arrivals.glsl"

layout(constant_id = 2) const uint HEAD_SIZE = 64;  // a multiple of 16
layout(constant_id = 3) const uint HEADS = 1;       // query heads of a workgroup
layout(constant_id = 4) const uint KEY_FORMAT = 0;
layout(constant_id = 5) const uint VALUE_FORMAT = 0;
layout(constant_id = 6) const uint PAIRING = 0;     // which elements rotate together
layout(constant_id = 7) const uint NORMALISE = 0;   // 1: heads are RMS-normalised first
layout(constant_id = 8) const uint OUT = 0;         // the form of y
layout(constant_id = 9) const uint ROTATED = 0;     // leading elements of a head that rotate
const uint HALVES = 0, INTERLEAVED = 1;             // (i, i + n/2) or (2i, 2i + 1)

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32
    uint64_t k;           // [kv_heads, HEAD_SIZE] f32
    uint64_t v;           // [kv_heads, HEAD_SIZE] f32
    uint64_t q_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t k_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t rotation;    // [context, ROTATED / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [context, kv_heads * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [context, kv_heads * HEAD_SIZE] in VALUE_FORMAT
    uint64_t partials;    // [groups, splits, HEADS * (HEAD_SIZE + 4)] f32: weighted values; maxima and sums
    uint64_t y;           // [query_heads, HEAD_SIZE] in form OUT
    uint64_t counters;    // [groups] u32, 0
    uint kv_heads;
    uint groups_per_kv;   // query heads that share a key and value head / HEADS
    float epsilon;
} push;

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint PARTS = HEAD_SIZE / 4;                            // of a head, four elements each
const uint OWN_PARTS = (PARTS + SUBGROUP - 1) / SUBGROUP;    // of them a lane's
const uint HEADS_4 = (HEADS + 3) / 4;
const uint OWN_PAIRS = (HEAD_SIZE / 2 + SUBGROUP - 1) / SUBGROUP; // of a head's elements a lane's
const uint KEYS_AHEAD = PARTS % 16 == 0 ? 8 : 2;             // eight elements of a key each, loaded before the first is used
const uint VALUES_AHEAD = 8;                                 // rows of which a lane's parts are loaded before the first is used
const uint MAX_SHARES = 64;                                  // of a context; more than the subgroups of a workgroup
#define MINUS_INFINITY uintBitsToFloat(0xff800000u)


shared vec4 query[HEADS * PARTS];                            // in the end the joined values
shared vec4 weights[SUBGROUPS * SUBGROUP * HEADS_4];         // of a tile: [subgroup, position, head]
shared float maxima[MAX_SHARES * HEADS];                     // [share, head], of the subgroups and in the end of the splits
shared float sums[MAX_SHARES * HEADS];

uint cache_bytes(uint format) { return format == CACHE_F16 ? 2u : 4u; }
// Four elements as they are stored.
uvec4 load_cache4(uint format, uint64_t row, uint part) {
    if (format == CACHE_F32) return load_uvec4(row, part * 16);
    return uvec4(load_uvec2(row, part * 8), 0, 0);
}
vec4 cache4_value(uint format, uvec4 stored) {
    return format == CACHE_F32 ? uintBitsToFloat(stored) : vec4(half_pair(stored.x), half_pair(stored.y));
}
void store_cache(uint64_t row, uint format, uint index, float value) {
    if (format == CACHE_F16) store_u16(row, index * 2, half_bits(value));
    else store_f32(row, index * 4, value);
}

// The elements of pair p of a head: those that rotate together, then the others by twos.
uvec2 pair_elements(uint p) {
    if (p < ROTATED / 2) return PAIRING == HALVES ? uvec2(p, p + ROTATED / 2) : uvec2(2 * p, 2 * p + 1);
    return uvec2(2 * p, 2 * p + 1);
}
// Normalises and rotates a head, by one subgroup: each lane gets its pairs.
void prepare_head(uint64_t head, uint64_t norm, uint position, out vec2 pairs[OWN_PAIRS]) {
    vec2 weight[OWN_PAIRS], angle[OWN_PAIRS];
    uint64_t angles = push.rotation + uint64_t(position) * uint64_t(ROTATED * 4);
    float squares = 0.0;
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        uint p = gl_SubgroupInvocationID + n * SUBGROUP;
        uvec2 i = pair_elements(p);
        bool inside = p < HEAD_SIZE / 2;
        pairs[n] = inside ? vec2(load_f32(head, i.x * 4), load_f32(head, i.y * 4)) : vec2(0.0);
        weight[n] = inside && NORMALISE == 1 ? vec2(load_f32(norm, i.x * 4), load_f32(norm, i.y * 4)) : vec2(1.0);
        angle[n] = p < ROTATED / 2 ? uintBitsToFloat(load_uvec2(angles, p * 8)) : vec2(1.0, 0.0);
        squares += dot(pairs[n], pairs[n]);
    }
    float scale = NORMALISE == 1 ? 1.0 / sqrt(subgroupAdd(squares) / float(HEAD_SIZE) + push.epsilon) : 1.0;
    [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
        vec2 x = NORMALISE == 1 ? pairs[n] * scale * weight[n] : pairs[n];
        pairs[n] = vec2(x.x * angle[n].x - x.y * angle[n].y, x.x * angle[n].y + x.y * angle[n].x);
    }
}

// The highest of `count` shares' maxima for a head.
float highest_of(uint count, uint h) {
    float highest = maxima[h];
    for (uint s = 1; s < count; s++) highest = max(highest, maxima[s * HEADS + h]);
    return highest;
}
// The sum of a head over `count` shares, relative to the highest maximum.
float total_of(uint count, uint h, float highest) {
    float total = 0.0;
    for (uint s = 0; s < count; s++) total += sums[s * HEADS + h] * exp(maxima[s * HEADS + h] - highest);
    return total;
}

// A lane's parts of VALUES_AHEAD rows from `first` on. Beyond the tile's positions the last one stands in: its weight there is 0.
// (A macro, because arrays whose size is a specialisation constant cannot be passed.)
#define LOAD_VALUES(first)                                                                                                \
    [[unroll]] for (uint j = 0; j < VALUES_AHEAD; j++) {                                                                  \
        uint64_t row = tile_values + uint64_t(min((first) + j, count - 1) * value_row_bytes);                             \
        [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) {                                                                 \
            value[j * OWN_PARTS + n] = load_cache4(VALUE_FORMAT, row, min(lane + n * SUBGROUP, PARTS - 1));               \
        }                                                                                                                 \
    }

void main() {
    bool live = step_is_live(push.state);
    uint position = step_position(push.state);
    if (!live) return;
    uint tiles = position / SUBGROUP + 1; // the token's own entry counts
    uint split = gl_WorkGroupID.x, splits = gl_NumWorkGroups.x, group = gl_WorkGroupID.y;
    uint first_tile = split * SUBGROUPS, stride = splits * SUBGROUPS;
    if (first_tile >= tiles) return;
    uint kv_head = group / push.groups_per_kv;
    uint lane = gl_SubgroupInvocationID;
    uint key_row_bytes = push.kv_heads * HEAD_SIZE * cache_bytes(KEY_FORMAT);
    uint value_row_bytes = push.kv_heads * HEAD_SIZE * cache_bytes(VALUE_FORMAT);
    uint64_t key_cache = push.key_cache + uint64_t(kv_head * HEAD_SIZE * cache_bytes(KEY_FORMAT));
    uint64_t value_cache = push.value_cache + uint64_t(kv_head * HEAD_SIZE * cache_bytes(VALUE_FORMAT));

    // The queries, and where the token's own tile is, its key and value. Groups that share the latter write equal bytes.
    bool owner = (tiles - 1) / SUBGROUPS % splits == split;
    for (uint item = gl_SubgroupID; item < HEADS + (owner ? 2 : 0); item += SUBGROUPS) {
        if (item <= HEADS) {
            bool is_query = item < HEADS;
            uint64_t head = is_query ? push.q + uint64_t((group * HEADS + item) * HEAD_SIZE * 4) : push.k + uint64_t(kv_head * HEAD_SIZE * 4);
            uint64_t row = key_cache + uint64_t(position) * uint64_t(key_row_bytes);
            vec2 pairs[OWN_PAIRS];
            prepare_head(head, is_query ? push.q_norm : push.k_norm, position, pairs);
            [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
                uint p = lane + n * SUBGROUP;
                uvec2 i = pair_elements(p);
                if (p >= HEAD_SIZE / 2) continue;
                if (is_query) {
                    query[item * PARTS + i.x / 4][i.x % 4] = pairs[n].x / sqrt(float(HEAD_SIZE));
                    query[item * PARTS + i.y / 4][i.y % 4] = pairs[n].y / sqrt(float(HEAD_SIZE));
                } else {
                    store_cache(row, KEY_FORMAT, i.x, pairs[n].x);
                    store_cache(row, KEY_FORMAT, i.y, pairs[n].y);
                }
            }
        } else {
            uint64_t row = value_cache + uint64_t(position) * uint64_t(value_row_bytes);
            for (uint i = lane; i < HEAD_SIZE; i += SUBGROUP) {
                store_cache(row, VALUE_FORMAT, i, load_f32(push.v, (kv_head * HEAD_SIZE + i) * 4));
            }
        }
    }
    memoryBarrierBuffer();
    barrier();

    vec4 values[HEADS * OWN_PARTS];
    float maximum[HEADS], sum[HEADS];
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        maximum[h] = MINUS_INFINITY;
        sum[h] = 0.0;
        [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) values[h * OWN_PARTS + n] = vec4(0.0);
    }
    for (uint tile = first_tile + gl_SubgroupID; tile < tiles; tile += stride) {
        uint first = tile * SUBGROUP;
        uint count = min(SUBGROUP, position + 1 - first);
        uint64_t tile_keys = key_cache + uint64_t(first) * uint64_t(key_row_bytes);
        uint64_t tile_values = value_cache + uint64_t(first) * uint64_t(value_row_bytes);

        // The first values are under way while the keys are multiplied.
        uvec4 value[VALUES_AHEAD * OWN_PARTS];
        LOAD_VALUES(0)
        float score[HEADS];
        [[unroll]] for (uint h = 0; h < HEADS; h++) score[h] = 0.0;
        uint own_row = min(lane, count - 1) * key_row_bytes;
        [[unroll]] for (uint part = 0; part < PARTS; part += 2 * KEYS_AHEAD) {
            uvec4 key[2 * KEYS_AHEAD];
            [[unroll]] for (uint n = 0; n < KEYS_AHEAD; n++) {
                if (KEY_FORMAT == CACHE_F16) {
                    uvec4 eight = load_uvec4(tile_keys, own_row + (part + 2 * n) * 8);
                    key[2 * n] = uvec4(eight.xy, 0, 0);
                    key[2 * n + 1] = uvec4(eight.zw, 0, 0);
                } else {
                    key[2 * n] = load_uvec4(tile_keys, own_row + (part + 2 * n) * 16);
                    key[2 * n + 1] = load_uvec4(tile_keys, own_row + (part + 2 * n + 1) * 16);
                }
            }
            [[unroll]] for (uint n = 0; n < 2 * KEYS_AHEAD; n++) {
                vec4 key_part = cache4_value(KEY_FORMAT, key[n]);
                [[unroll]] for (uint h = 0; h < HEADS; h++) score[h] += dot(query[h * PARTS + part + n], key_part);
            }
        }
        uint slot = (gl_SubgroupID * SUBGROUP + lane) * HEADS_4;
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            float raised = max(maximum[h], subgroupMax(lane < count ? score[h] : MINUS_INFINITY));
            float weight = lane < count ? exp(score[h] - raised) : 0.0;
            float keep = exp(maximum[h] - raised); // 0 for the first tile
            maximum[h] = raised;
            sum[h] = sum[h] * keep + weight;
            weights[slot + h / 4][h % 4] = weight;
            [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) values[h * OWN_PARTS + n] *= keep;
        }
        subgroupBarrier();
        for (uint t = 0; t < count; t += VALUES_AHEAD) {
            vec4 now[VALUES_AHEAD * OWN_PARTS];
            [[unroll]] for (uint n = 0; n < VALUES_AHEAD * OWN_PARTS; n++) now[n] = cache4_value(VALUE_FORMAT, value[n]);
            if (t + VALUES_AHEAD < count) {
                LOAD_VALUES(t + VALUES_AHEAD)
            }
            [[unroll]] for (uint j = 0; j < VALUES_AHEAD; j++) {
                uint from = (gl_SubgroupID * SUBGROUP + t + j) * HEADS_4;
                [[unroll]] for (uint h = 0; h < HEADS; h++) {
                    float weight = weights[from + h / 4][h % 4];
                    [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) values[h * OWN_PARTS + n] += weight * now[j * OWN_PARTS + n];
                }
            }
        }
        subgroupBarrier(); // the weights have been read
    }

    // The subgroups' shares become the workgroup's, in the order of the subgroups.
    uint filled = min(SUBGROUPS, tiles - first_tile);
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        float total = subgroupAdd(sum[h]);
        if (subgroupElect()) {
            maxima[gl_SubgroupID * HEADS + h] = maximum[h];
            sums[gl_SubgroupID * HEADS + h] = total;
        }
    }
    barrier(); // also: the queries have been read
    for (uint s = 0; s < filled; s++) {
        if (gl_SubgroupID == s) {
            [[unroll]] for (uint h = 0; h < HEADS; h++) {
                float keep = exp(maximum[h] - highest_of(filled, h));
                [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) {
                    uint part = lane + n * SUBGROUP;
                    if (part < PARTS) {
                        vec4 before = s == 0 ? vec4(0.0) : query[h * PARTS + part];
                        query[h * PARTS + part] = before + values[h * OWN_PARTS + n] * keep;
                    }
                }
            }
        }
        barrier();
    }

    uint sharers = min(splits, (tiles + SUBGROUPS - 1) / SUBGROUPS), shares_of_sums = filled;
    if (sharers > 1) {
        uint share_bytes = HEADS * (HEAD_SIZE + 4) * 4;
        uint64_t shares = push.partials + uint64_t(group * splits * share_bytes);
        uint64_t share = shares + uint64_t(split * share_bytes);
        for (uint i = thread_index(); i < HEADS * PARTS; i += workgroup_size()) store_shared_vec4(share, i * 16, query[i]);
        if (thread_index() < HEADS) {
            uint h = thread_index();
            float highest = highest_of(filled, h);
            store_shared_vec4(share, (HEADS * PARTS + h) * 16, vec4(highest, total_of(filled, h, highest), 0.0, 0.0));
        }
        if (!last_to_arrive(push.counters + uint64_t(group * 4), sharers)) return;

        for (uint i = thread_index(); i < HEADS * sharers; i += workgroup_size()) {
            uint s = i / HEADS, h = i % HEADS;
            vec4 of_share = load_shared_vec4(shares, s * share_bytes + (HEADS * PARTS + h) * 16);
            maxima[i] = of_share.x;
            sums[i] = of_share.y;
        }
        barrier();
        for (uint i = thread_index(); i < HEADS * PARTS; i += workgroup_size()) {
            uint h = i / PARTS;
            float highest = highest_of(sharers, h);
            vec4 value = vec4(0.0);
            for (uint first = 0; first < sharers; first += 4) {
                vec4 of_share[4];
                [[unroll]] for (uint n = 0; n < 4; n++) {
                    of_share[n] = load_shared_vec4(shares, min(first + n, sharers - 1) * share_bytes + i * 16);
                }
                [[unroll]] for (uint n = 0; n < 4; n++) {
                    if (first + n < sharers) value += of_share[n] * exp(maxima[(first + n) * HEADS + h] - highest);
                }
            }
            query[i] = value;
        }
        shares_of_sums = sharers;
        barrier();
    }

    // A run of a head by one thread.
    uint n = gl_NumWorkGroups.y * HEADS * HEAD_SIZE;
    for (uint run = thread_index(); run < HEADS * HEAD_SIZE / RUN; run += workgroup_size()) {
        uint h = run / (HEAD_SIZE / RUN);
        float total = total_of(shares_of_sums, h, highest_of(shares_of_sums, h));
        vec4 v[4];
        for (uint j = 0; j < 4; j++) v[j] = query[run * 4 + j] / total;
        store_act(OUT, push.y, n, group * HEADS * HEAD_SIZE / RUN + run, v);
    }
}
