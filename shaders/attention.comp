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
const uint HALVES = 0, INTERLEAVED = 1;             // (i, i + n/2) or (2i, 2i + 1)

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32
    uint64_t k;           // [kv_heads, HEAD_SIZE] f32
    uint64_t v;           // [kv_heads, HEAD_SIZE] f32
    uint64_t q_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t k_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t rotation;    // [context, rotated / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [context, kv_heads * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [context, kv_heads * HEAD_SIZE] in VALUE_FORMAT
    uint64_t partials;    // [groups, splits, HEADS * (HEAD_SIZE + 4)] f32: weighted values; maxima and sums
    uint64_t y;           // [query_heads, HEAD_SIZE] in form OUT
    uint64_t counters;    // [groups] u32, 0
    uint kv_heads;
    uint groups_per_kv;   // query heads that share a key and value head / HEADS
    uint rotated;         // leading elements of a head that rotate
    float epsilon;
} push;

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint PARTS = HEAD_SIZE / 4;                            // of a head, four elements each
const uint OWN_PARTS = (PARTS + SUBGROUP - 1) / SUBGROUP;    // of them a lane's
const uint HEADS_4 = (HEADS + 3) / 4;
const uint KEYS_AHEAD = 2;                                   // sixteen elements each
const uint VALUES_AHEAD = 4;
#define MINUS_INFINITY uintBitsToFloat(0xff800000u)


shared vec4 query[HEADS * PARTS];                            // in the end the joined values
shared vec4 weights[SUBGROUPS * SUBGROUP * HEADS_4];         // of a tile: [subgroup, position, head]; in the end those of the splits
shared float maxima[SUBGROUPS * HEADS];
shared float sums[SUBGROUPS * HEADS];

uint cache_bytes(uint format) { return format == CACHE_F16 ? 2u : 4u; }
vec4 load_cache4(uint format, uint64_t row, uint part) {
    if (format == CACHE_F32) return load_vec4(row, part * 16);
    uvec2 w = load_uvec2(row, part * 8);
    return vec4(half_pair(w.x), half_pair(w.y));
}
void store_cache(uint64_t row, uint format, uint index, float value) {
    if (format == CACHE_F16) store_u16(row, index * 2, half_bits(value));
    else store_f32(row, index * 4, value);
}

// What a subgroup needs of a head before any of its elements can be written: the factor of its normalisation.
float head_scale(uint64_t head) {
    if (NORMALISE == 0) return 1.0;
    float squares = 0.0;
    for (uint part = gl_SubgroupInvocationID; part < PARTS; part += SUBGROUP) {
        vec4 x = load_vec4(head, part * 16);
        squares += dot(x, x);
    }
    return 1.0 / sqrt(subgroupAdd(squares) / float(HEAD_SIZE) + push.epsilon);
}
float normalised(uint64_t head, uint64_t norm, float scale, uint i) {
    float x = load_f32(head, i * 4);
    return NORMALISE == 1 ? x * scale * load_f32(norm, i * 4) : x;
}
// Element i of the normalised and rotated head.
float rotate(uint64_t head, uint64_t norm, float scale, uint i, uint position) {
    float own = normalised(head, norm, scale, i);
    if (i >= push.rotated) return own;
    uint half_count = push.rotated / 2;
    uint pair = PAIRING == HALVES ? i % half_count : i / 2;
    bool second = PAIRING == HALVES ? i >= half_count : (i & 1u) != 0u;
    uint other_index = PAIRING == HALVES ? (second ? i - half_count : i + half_count) : i ^ 1u;
    uint64_t angles = push.rotation + uint64_t(position) * uint64_t(half_count * 8);
    float cosine = load_f32(angles, pair * 8), sine = load_f32(angles, pair * 8 + 4);
    float other = normalised(head, norm, scale, other_index);
    return second ? other * sine + own * cosine : own * cosine - other * sine;
}

void main() {
    if (!step_is_live(push.state)) return;
    uint position = StepState(push.state).position;
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
        if (item < HEADS) {
            uint64_t head = push.q + uint64_t((group * HEADS + item) * HEAD_SIZE * 4);
            float scale = head_scale(head);
            for (uint i = lane; i < HEAD_SIZE; i += SUBGROUP) {
                query[item * PARTS + i / 4][i % 4] = rotate(head, push.q_norm, scale, i, position) / sqrt(float(HEAD_SIZE));
            }
        } else if (item == HEADS) {
            uint64_t head = push.k + uint64_t(kv_head * HEAD_SIZE * 4);
            uint64_t row = key_cache + uint64_t(position) * uint64_t(key_row_bytes);
            float scale = head_scale(head);
            for (uint i = lane; i < HEAD_SIZE; i += SUBGROUP) {
                store_cache(row, KEY_FORMAT, i, rotate(head, push.k_norm, scale, i, position));
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

        float score[HEADS];
        [[unroll]] for (uint h = 0; h < HEADS; h++) score[h] = 0.0;
        uint own_row = min(lane, count - 1) * key_row_bytes;
        for (uint part = 0; part < PARTS; part += 2 * KEYS_AHEAD) {
            vec4 key[2 * KEYS_AHEAD];
            [[unroll]] for (uint n = 0; n < KEYS_AHEAD; n++) {
                if (KEY_FORMAT == CACHE_F16) {
                    uvec4 w = load_uvec4(tile_keys, own_row + (part + 2 * n) * 8);
                    key[2 * n] = vec4(half_pair(w.x), half_pair(w.y));
                    key[2 * n + 1] = vec4(half_pair(w.z), half_pair(w.w));
                } else {
                    key[2 * n] = load_vec4(tile_keys, own_row + (part + 2 * n) * 16);
                    key[2 * n + 1] = load_vec4(tile_keys, own_row + (part + 2 * n + 1) * 16);
                }
            }
            [[unroll]] for (uint n = 0; n < 2 * KEYS_AHEAD; n++) {
                [[unroll]] for (uint h = 0; h < HEADS; h++) score[h] += dot(query[h * PARTS + part + n], key[n]);
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
            vec4 value[VALUES_AHEAD * OWN_PARTS];
            [[unroll]] for (uint j = 0; j < VALUES_AHEAD; j++) {
                uint64_t row = tile_values + uint64_t(min(t + j, count - 1) * value_row_bytes); // the weight of what is beyond is 0
                [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) {
                    value[j * OWN_PARTS + n] = load_cache4(VALUE_FORMAT, row, min(lane + n * SUBGROUP, PARTS - 1));
                }
            }
            [[unroll]] for (uint j = 0; j < VALUES_AHEAD; j++) {
                uint from = (gl_SubgroupID * SUBGROUP + t + j) * HEADS_4;
                [[unroll]] for (uint h = 0; h < HEADS; h++) {
                    float weight = weights[from + h / 4][h % 4];
                    [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) values[h * OWN_PARTS + n] += weight * value[j * OWN_PARTS + n];
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
    float joined_maximum[HEADS];
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        joined_maximum[h] = maxima[h];
        for (uint s = 1; s < filled; s++) joined_maximum[h] = max(joined_maximum[h], maxima[s * HEADS + h]);
    }
    for (uint s = 0; s < filled; s++) {
        if (gl_SubgroupID == s) {
            [[unroll]] for (uint h = 0; h < HEADS; h++) {
                float keep = exp(maximum[h] - joined_maximum[h]);
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

    uint sharers = min(splits, (tiles + SUBGROUPS - 1) / SUBGROUPS);
    uint share_bytes = HEADS * (HEAD_SIZE + 4) * 4;
    uint64_t shares = push.partials + uint64_t(group * splits * share_bytes);
    if (sharers > 1) {
        uint64_t share = shares + uint64_t(split * share_bytes);
        for (uint i = thread_index(); i < HEADS * PARTS; i += workgroup_size()) store_shared_vec4(share, i * 16, query[i]);
        if (thread_index() < HEADS) {
            uint h = thread_index();
            float highest = maxima[h], total = 0.0;
            for (uint s = 1; s < filled; s++) highest = max(highest, maxima[s * HEADS + h]);
            for (uint s = 0; s < filled; s++) total += sums[s * HEADS + h] * exp(maxima[s * HEADS + h] - highest);
            store_shared_vec4(share, (HEADS * PARTS + h) * 16, vec4(highest, total, 0.0, 0.0));
        }
        if (!last_to_arrive(push.counters + uint64_t(group * 4), sharers)) return;
    }

    // Each part of a head by one thread.
    for (uint i = thread_index(); i < HEADS * PARTS; i += workgroup_size()) {
        uint h = i / PARTS;
        vec4 value = vec4(0.0);
        float total = 0.0, highest = MINUS_INFINITY;
        if (sharers > 1) {
            for (uint s = 0; s < sharers; s++) highest = max(highest, load_shared_f32(shares, s * share_bytes + (HEADS * PARTS + h) * 16));
            for (uint s = 0; s < sharers; s++) {
                vec4 of_share = load_shared_vec4(shares, s * share_bytes + (HEADS * PARTS + h) * 16);
                float keep = exp(of_share.x - highest);
                total += of_share.y * keep;
                value += load_shared_vec4(shares, s * share_bytes + i * 16) * keep;
            }
        } else {
            value = query[i];
            for (uint s = 0; s < filled; s++) highest = max(highest, maxima[s * HEADS + h]);
            for (uint s = 0; s < filled; s++) total += sums[s * HEADS + h] * exp(maxima[s * HEADS + h] - highest);
        }
        query[i] = value / total;
    }
    barrier();
    uint n = gl_NumWorkGroups.y * HEADS * HEAD_SIZE;
    for (uint run = thread_index(); run < HEADS * HEAD_SIZE / RUN; run += workgroup_size()) {
        vec4 v[4];
        for (uint j = 0; j < 4; j++) v[j] = query[run * 4 + j];
        store_act(OUT, push.y, n, group * HEADS * HEAD_SIZE / RUN + run, v);
    }
}
