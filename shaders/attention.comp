// Attention of each row of the step: normalises and rotates its queries and its key, appends key and value to the cache, attends to the cache,
// and joins the shares. With APPENDED the kernel `append` has put the keys and values of the step's rows into the cache before.
//
// Workgroup (split, group) takes HEADS query heads that share a key and value head, so that each cached key and value is read once for all of
// them. ROW_LANES lanes share a position, with a part of the head each: of the queries and of the weighted values, which stay in registers.
// The context is split over workgroups and their subgroups by tiles; the grid does not depend on the context length, so that one recording
// serves every position. Splits without a tile read the weights of the operation that follows, which then finds them in the cache. The workgroup of a
// group that finishes last joins the shares, in the order of the splits. Every workgroup prepares the queries for itself. Those whose tiles hold
// positions of the step's rows, up to their own row's, write these to the cache before they read them, unless they are there already: what several
// write is the same.
// (Online softmax: Milakov and Gimelshein, 2018; split over the context: Dao et al., Flash-Decoding, 2023.)
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
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
layout(constant_id = 8) const uint OUT = 0;         // ACT_Q14: y is rounded, and a workgroup has whole groups of 256 elements of it
layout(constant_id = 9) const uint ROTATED = 0;     // leading elements of a head that rotate
layout(constant_id = 10) const uint KV_HEADS = 1;   // key and value heads
layout(constant_id = 11) const float EPSILON = 0.0; // of the normalisation
layout(constant_id = 12) const uint GROUPS = 1;     // workgroups that share a key and value head
layout(constant_id = 13) const uint APPENDED = 0;   // 1: the cache has the keys and values of the step's rows already; k and v are not read
#include "include/heads.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32
    uint64_t k;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t v;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t q_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t k_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t rotation;    // [context, ROTATED / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [context, KV_HEADS * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [context, KV_HEADS * HEAD_SIZE] in VALUE_FORMAT
    uint64_t partials;    // [rows, groups, splits, HEADS * (HEAD_SIZE + 4)] f32: weighted values; maxima and sums
    uint64_t y;           // [query_heads, HEAD_SIZE] f32, or rounded
    uint64_t counters;    // [rows, groups] u32, 0
    uint64_t next;        // what the next operation reads, a multiple of 16 bytes
    uint next_bytes;
    uint q_stride;        // bytes from one row of the step to the next, as the strides below
    uint k_stride;
    uint v_stride;
    uint y_stride;
} push;

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint PARTS = HEAD_SIZE / 4;                                   // of a head, four elements each
const uint EIGHTS = HEAD_SIZE / 8;                                  // of a head, eight elements each
const uint ROW_LANES = HEAD_SIZE > 128 && SUBGROUP > 8 ? 16 : 8;    // lanes that share a position
const uint OWN_EIGHTS = (EIGHTS + ROW_LANES - 1) / ROW_LANES;       // of a row a lane's
const uint ROWS = SUBGROUP / ROW_LANES;                             // positions of a subgroup at a time
const uint STEPS = 2;                                               // of which a tile consists, loaded together
const uint TILE = ROWS * STEPS;                                     // positions of a subgroup between two looks at the maximum
const uint KEY_WORDS = KEY_FORMAT == CACHE_F16 ? 1 : 2;             // of 16 bytes in eight elements
const uint VALUE_WORDS = VALUE_FORMAT == CACHE_F16 ? 1 : 2;
const uint MAX_SHARES = 64;                                         // of a context; more than the subgroups of a workgroup
const uint SHARES_AHEAD = 8;                                        // loaded before the first is used
const uint WARM_AHEAD = 8;
#define MINUS_INFINITY uintBitsToFloat(0xff800000u)

shared vec4 query[HEADS * PARTS];
shared vec4 joined[SUBGROUPS * HEADS * PARTS]; // [subgroup, head, part]: weighted values
shared float maxima[MAX_SHARES * HEADS];       // [share, head], of the subgroups and in the end of the splits
shared float sums[MAX_SHARES * HEADS];
shared float keeps[MAX_SHARES * HEADS];        // what is left of a share beside the highest maximum, divided by the sum of all

// Half h of eight elements, given the one or two words that hold them.
vec4 cache_half(uint format, uvec4 first, uvec4 second, uint h) {
    if (format == CACHE_F32) return uintBitsToFloat(h == 0 ? first : second);
    return h == 0 ? vec4(half_pair(first.x), half_pair(first.y)) : vec4(half_pair(first.z), half_pair(first.w));
}

// What is left of a share whose maximum is `own` beside one whose maximum is `highest`. Nothing of an empty one.
float kept(float own, float highest) { return own == MINUS_INFINITY ? 0.0 : exp(own - highest); }

// Joins the maxima and sums of `count` shares, by one thread a share and head: fills `keeps`, undivided where the result is a share again, and
// gives the joined maximum and sum of the thread's head.
vec2 join_shares(uint count, bool divide) {
    vec2 all = vec2(0.0);
    for (uint i = thread_index(); i < count * HEADS; i += gl_WorkGroupSize.x) {
        uint h = i % HEADS;
        float highest = maxima[h];
        for (uint s = 1; s < count; s++) highest = max(highest, maxima[s * HEADS + h]);
        float total = 0.0;
        for (uint s = 0; s < count; s++) total += sums[s * HEADS + h] * exp(maxima[s * HEADS + h] - highest);
        float keep = exp(maxima[i] - highest);
        keeps[i] = divide ? keep / total : keep;
        all = vec2(highest, total);
    }
    barrier();
    return all;
}

// Brings the next operation's weights into the device's cache, by idle split `idle` of `count` of the step's first row. What is read goes to the
// split's own share of the partials, which nobody reads: else it would not have to be read.
void warm_cache(uint idle, uint count) {
    uint group = gl_WorkGroupID.y, groups = gl_NumWorkGroups.y;
    uint stride = count * groups * gl_WorkGroupSize.x * 16;
    uvec4 read = uvec4(0);
    for (uint at = ((idle * groups + group) * gl_WorkGroupSize.x + lane_index()) * 16; at < push.next_bytes; at += WARM_AHEAD * stride) {
        uvec4 ahead[WARM_AHEAD];
        [[unroll]] for (uint n = 0; n < WARM_AHEAD; n++) ahead[n] = load_uvec4(push.next, min(at + n * stride, push.next_bytes - 16));
        [[unroll]] for (uint n = 0; n < WARM_AHEAD; n++) read ^= ahead[n];
    }
    uint word = subgroupXor(read.x ^ read.y ^ read.z ^ read.w);
    uint64_t share = push.partials + uint64_t((group * gl_NumWorkGroups.x + gl_WorkGroupID.x) * HEADS * (HEAD_SIZE + 4) * 4);
    if (subgroupElect()) store_u32(share, gl_SubgroupID * 4, word);
}

// A lane's eights of the keys and values of a tile. Beyond the last position that one stands in: its weight there is 0.
// (A macro, because arrays whose size is a specialisation constant cannot be passed.)
#define LOAD_TILE(tile)                                                                                                   \
    [[unroll]] for (uint step = 0; step < STEPS; step++) {                                                                \
        uint row = min((tile) * TILE + step * ROWS + lane / ROW_LANES, position);                                         \
        [[unroll]] for (uint e = 0; e < OWN_EIGHTS; e++) {                                                                \
            uint eight = min(lane % ROW_LANES + e * ROW_LANES, EIGHTS - 1);                                               \
            [[unroll]] for (uint w = 0; w < KEY_WORDS; w++) {                                                             \
                key[(step * OWN_EIGHTS + e) * KEY_WORDS + w] =                                                            \
                    load_uvec4(key_cache, row * key_row_bytes + (eight * KEY_WORDS + w) * 16);                            \
            }                                                                                                             \
            [[unroll]] for (uint w = 0; w < VALUE_WORDS; w++) {                                                           \
                value[(step * OWN_EIGHTS + e) * VALUE_WORDS + w] =                                                        \
                    load_uvec4(value_cache, row * value_row_bytes + (eight * VALUE_WORDS + w) * 16);                      \
            }                                                                                                             \
        }                                                                                                                 \
    }

// Rounds the workgroup's heads, which are at the beginning of `joined`. Every thread takes part.
void store_rounded_heads(uint64_t y, uint group) {
    barrier();
    const uint own_groups = HEADS * HEAD_SIZE / 256;
    for (uint g = gl_SubgroupID; g < own_groups; g += SUBGROUPS) {
        vec4 parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) parts[n] = joined[g * 64u + n * SUBGROUP + gl_SubgroupInvocationID];
        store_rounded(y, gl_NumWorkGroups.y * own_groups, group * own_groups + g, parts);
    }
}

void main() {
    bool live = row_is_live(push.state);
    // A step that has room for one row has the first of its lane. With APPENDED nothing depends on the rows before it.
    uint position = row_position(push.state), offset = APPENDED == 1 || gl_NumWorkGroups.z == 1 ? 0 : row_offset(push.state);
    uint first_position = position - offset; // of the lane's first row
    if (!live) return;
    uint tiles = position / TILE + 1; // the row's own entry counts
    uint split = gl_WorkGroupID.x, splits = gl_NumWorkGroups.x, group = gl_WorkGroupID.y;
    uint first_tile = split * SUBGROUPS, stride = splits * SUBGROUPS;
    if (first_tile >= tiles) {
        if (row_index() == 0) warm_cache(split - min(splits, (tiles + SUBGROUPS - 1) / SUBGROUPS), splits - (tiles + SUBGROUPS - 1) / SUBGROUPS);
        return;
    }
    uint kv_head = group / GROUPS;
    uint lane = gl_SubgroupInvocationID;
    uint key_row_bytes = cache_row_bytes(KEY_FORMAT), value_row_bytes = cache_row_bytes(VALUE_FORMAT);
    uint64_t key_cache = cache_of_head(push.key_cache, KEY_FORMAT, kv_head);
    uint64_t value_cache = cache_of_head(push.value_cache, VALUE_FORMAT, kv_head);

    // The first tile is under way while the queries are prepared.
    uint tile = first_tile + gl_SubgroupID;
    uvec4 key[STEPS * OWN_EIGHTS * KEY_WORDS], value[STEPS * OWN_EIGHTS * VALUE_WORDS];
    if (tile < tiles) {
        LOAD_TILE(tile)
    }

    // The queries, and of the positions of the lane's rows those in the workgroup's tiles: keys and values, unless they are in the cache already.
    // Groups that share the latter, and the workgroups of other rows, write equal bytes.
    uint own_row = first_position, own_rows = 0;
    if (APPENDED == 0) {
        uint first_turn = first_position / (TILE * SUBGROUPS), last_turn = (tiles - 1) / SUBGROUPS; // at most one apart
        if (last_turn % splits == split) {
            if (first_turn != last_turn && first_turn % splits != split) own_row = last_turn * TILE * SUBGROUPS;
            own_rows = position + 1 - own_row;
        } else if (first_turn != last_turn && first_turn % splits == split) {
            own_rows = last_turn * TILE * SUBGROUPS - own_row;
        }
    }
    for (uint item = gl_SubgroupID; item < HEADS + 2 * own_rows; item += SUBGROUPS) {
        bool is_query = APPENDED == 1 || item < HEADS;
        uint at = is_query ? position : own_row + (item - HEADS) / 2;
        uint row_of_step = row_index() - offset + (at - first_position);
        if (is_query || (item - HEADS) % 2 == 0) {
            uint64_t head = is_query ? push.q + uint64_t(row_of_step * push.q_stride + (group * HEADS + item) * HEAD_SIZE * 4)
                : push.k + uint64_t(row_of_step * push.k_stride + kv_head * HEAD_SIZE * 4);
            uint64_t row = cache_row(key_cache, KEY_FORMAT, at);
            vec2 pairs[OWN_PAIRS];
            prepare_head(head, is_query ? push.q_norm : push.k_norm, push.rotation, at, pairs);
            [[unroll]] for (uint n = 0; n < OWN_PAIRS; n++) {
                uint p = lane + n * SUBGROUP;
                if (p >= HEAD_SIZE / 2) continue;
                if (is_query) {
                    uvec2 i = pair_elements(p);
                    query[item * PARTS + i.x / 4][i.x % 4] = pairs[n].x / sqrt(float(HEAD_SIZE));
                    query[item * PARTS + i.y / 4][i.y % 4] = pairs[n].y / sqrt(float(HEAD_SIZE));
                } else {
                    store_key_pair(row, p, pairs[n]);
                }
            }
        } else {
            uint64_t head = push.v + uint64_t(row_of_step * push.v_stride + kv_head * HEAD_SIZE * 4);
            store_value_head(cache_row(value_cache, VALUE_FORMAT, at), head);
        }
    }
    if (APPENDED == 0) memoryBarrierBuffer();
    barrier();

    vec4 own_query[HEADS * OWN_EIGHTS * 2], values[HEADS * OWN_EIGHTS * 2];
    float maximum[HEADS], sum[HEADS];
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        maximum[h] = MINUS_INFINITY;
        sum[h] = 0.0;
        [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
            uint part = (lane % ROW_LANES + i / 2 * ROW_LANES) * 2 + i % 2;
            own_query[h * OWN_EIGHTS * 2 + i] = part < PARTS ? query[h * PARTS + part] : vec4(0.0);
            values[h * OWN_EIGHTS * 2 + i] = vec4(0.0);
        }
    }
    for (; tile < tiles; tile += stride) {
        // What was loaded ahead lacks the positions of the step's rows, unless these were in the cache already.
        if (tile != first_tile + gl_SubgroupID || (APPENDED == 0 && tile >= first_position / TILE)) {
            LOAD_TILE(tile)
        }
        float score[STEPS * HEADS];
        [[unroll]] for (uint step = 0; step < STEPS; step++) {
            [[unroll]] for (uint h = 0; h < HEADS; h++) score[step * HEADS + h] = 0.0;
            [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
                uint at = (step * OWN_EIGHTS + i / 2) * KEY_WORDS;
                vec4 part = cache_half(KEY_FORMAT, key[at], key[at + KEY_WORDS - 1], i % 2);
                [[unroll]] for (uint h = 0; h < HEADS; h++) score[step * HEADS + h] += dot(own_query[h * OWN_EIGHTS * 2 + i], part);
            }
        }
        [[unroll]] for (uint apart = 1; apart < ROW_LANES; apart *= 2) {
            [[unroll]] for (uint i = 0; i < STEPS * HEADS; i++) score[i] += subgroupShuffleXor(score[i], apart);
        }
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            float raised = maximum[h];
            [[unroll]] for (uint step = 0; step < STEPS; step++) {
                if (tile * TILE + step * ROWS + lane / ROW_LANES <= position) raised = max(raised, score[step * HEADS + h]);
            }
            float keep = kept(maximum[h], raised);
            maximum[h] = raised;
            sum[h] *= keep;
            [[unroll]] for (uint step = 0; step < STEPS; step++) {
                bool inside = tile * TILE + step * ROWS + lane / ROW_LANES <= position;
                float weight = inside ? exp(score[step * HEADS + h] - raised) : 0.0;
                score[step * HEADS + h] = weight;
                sum[h] += weight;
            }
            if (keep != 1.0) {
                [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) values[h * OWN_EIGHTS * 2 + i] *= keep;
            }
        }
        [[unroll]] for (uint step = 0; step < STEPS; step++) {
            [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
                uint at = (step * OWN_EIGHTS + i / 2) * VALUE_WORDS;
                vec4 part = cache_half(VALUE_FORMAT, value[at], value[at + VALUE_WORDS - 1], i % 2);
                [[unroll]] for (uint h = 0; h < HEADS; h++) values[h * OWN_EIGHTS * 2 + i] += score[step * HEADS + h] * part;
            }
        }
    }

    // The shares of the lanes that had other positions become the subgroup's. They are added pairwise; each time a lane keeps half of the parts,
    // as long as it has several, and hands the others over.
    uint kept_parts = OWN_EIGHTS * 2, first_part = 0;
    bool keeper = true;
    [[unroll]] for (uint apart = ROW_LANES; apart < SUBGROUP; apart *= 2) {
        bool upper = (lane & apart) != 0;
        bool halves = kept_parts > 1;
        if (halves) kept_parts /= 2;
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            float highest = max(maximum[h], subgroupShuffleXor(maximum[h], apart));
            float keep = kept(maximum[h], highest);
            maximum[h] = highest;
            sum[h] *= keep;
            sum[h] += subgroupShuffleXor(sum[h], apart);
            [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
                if (i >= kept_parts) continue;
                uint at = h * OWN_EIGHTS * 2 + i;
                vec4 low = values[at] * keep;
                if (halves) {
                    vec4 high = values[at + kept_parts] * keep;
                    vec4 other = subgroupShuffleXor(upper ? low : high, apart);
                    values[at] = (upper ? high : low) + other;
                } else {
                    values[at] = low + subgroupShuffleXor(low, apart);
                }
            }
        }
        if (halves) first_part += upper ? kept_parts : 0;
        else keeper = keeper && !upper;
    }
    uint filled = min(SUBGROUPS, tiles - first_tile);
    if (subgroupElect()) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            maxima[gl_SubgroupID * HEADS + h] = maximum[h];
            sums[gl_SubgroupID * HEADS + h] = sum[h];
        }
    }
    if (keeper) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
                uint own = first_part + i;
                uint part = (lane % ROW_LANES + own / 2 * ROW_LANES) * 2 + own % 2;
                if (i < kept_parts && part < PARTS) joined[(gl_SubgroupID * HEADS + h) * PARTS + part] = values[h * OWN_EIGHTS * 2 + i];
            }
        }
    }
    barrier();

    // The subgroups' shares become the workgroup's, and the workgroups' the result, in a fixed order.
    uint sharers = min(splits, (tiles + SUBGROUPS - 1) / SUBGROUPS);
    vec2 all = join_shares(filled, sharers == 1);
    uint share_bytes = HEADS * (HEAD_SIZE + 4) * 4;
    uint64_t y = of_row(push.y, push.y_stride);
    uint64_t shares = push.partials + uint64_t((row_index() * gl_NumWorkGroups.y + group) * splits * share_bytes);
    uint64_t share = shares + uint64_t(split * share_bytes);
    for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) {
        vec4 value = vec4(0.0);
        for (uint s = 0; s < filled; s++) value += joined[s * HEADS * PARTS + i] * keeps[s * HEADS + i / PARTS];
        if (sharers > 1) store_shared_vec4(share, i * 16, value);
        else if (OUT == ACT_Q14) joined[i] = value;
        else store_vec4(y, (group * HEADS * PARTS + i) * 16, value);
    }
    if (sharers == 1) {
        if (OUT == ACT_Q14) store_rounded_heads(y, group);
        return;
    }
    if (thread_index() < HEADS) store_shared_vec4(share, (HEADS * PARTS + thread_index()) * 16, vec4(all, 0.0, 0.0));
    if (!last_to_arrive(push.counters + uint64_t((row_index() * gl_NumWorkGroups.y + group) * 4), sharers)) return;

    for (uint i = thread_index(); i < HEADS * sharers; i += gl_WorkGroupSize.x) {
        vec2 of_share = load_vec4(shares, i / HEADS * share_bytes + (HEADS * PARTS + i % HEADS) * 16).xy;
        maxima[i] = of_share.x;
        sums[i] = of_share.y;
    }
    barrier();
    join_shares(sharers, true);
    for (uint i = lane_index(); i < HEADS * PARTS; i += gl_WorkGroupSize.x) {
        vec4 value = vec4(0.0);
        for (uint first = 0; first < sharers; first += SHARES_AHEAD) {
            vec4 of_share[SHARES_AHEAD];
            [[unroll]] for (uint s = 0; s < SHARES_AHEAD; s++) {
                of_share[s] = load_vec4(shares, min(first + s, sharers - 1) * share_bytes + i * 16);
            }
            [[unroll]] for (uint s = 0; s < SHARES_AHEAD; s++) {
                if (first + s < sharers) value += of_share[s] * keeps[(first + s) * HEADS + i / PARTS];
            }
        }
        if (OUT == ACT_Q14) joined[i] = value;
        else store_vec4(y, (group * HEADS * PARTS + i) * 16, value);
    }
    if (OUT == ACT_Q14) store_rounded_heads(y, group);
}
