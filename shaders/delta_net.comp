// The gated delta rule: takes the rows of each lane of the step into the memories of its heads, one after the other, and reads of each what its query
// asks for.
//
// Eight lanes of a subgroup take a column of a head's matrix and keep it in registers: all rows of a lane of the step are a loop here, so that a
// row's bits do not depend on how many there are. No column needs another. Before the step's own rows come the drafts of the step before that were
// accepted. (Yang, Kautz, Hatamizadeh: Gated Delta Networks, 2024.)
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/activations.glsl"
#include "include/sigmoid.glsl"

layout(constant_id = 2) const uint KEY_HEADS = 1;
layout(constant_id = 3) const uint VALUE_HEADS = 1;
layout(constant_id = 4) const uint HEAD_SIZE = 32;      // 32, 64, 128 or 256
layout(constant_id = 5) const uint DRAFTS = 0;          // at most, of a lane in a step
layout(constant_id = 6) const uint HEAD_ORDER = 0;      // which value heads a key head serves
layout(constant_id = 7) const float QUERY_SCALE = 1.0;  // of normalised queries
#include "include/delta_state.glsl"
const uint PARTS = HEAD_SIZE / 4;
#include "include/float_products.glsl"

// Values of HEAD_ORDER: value head h has key head h % KEY_HEADS, or h / (VALUE_HEADS / KEY_HEADS).
const uint TILED = 0, GROUPED = 1;

const uint COLUMN_LANES = 8;                       // of a subgroup, for a column
const uint SUBGROUP_COLUMNS = SUBGROUP / COLUMN_LANES;
const uint OWN_PARTS = PARTS / COLUMN_LANES;       // parts of four elements of a column that a lane has: parts l, l + 8 and so on
const float LENGTH_EPSILON = 1e-6;                 // added to the square of a vector's length

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;            // [CHANNELS] f32: queries, keys and values behind the convolution
    uint64_t beta;         // [VALUE_HEADS] f32: how much of a value is written, before the sigmoid
    uint64_t alpha;        // [VALUE_HEADS] f32: how much is forgotten, before softplus
    uint64_t alpha_bias;   // [VALUE_HEADS] f32
    uint64_t decay;        // [VALUE_HEADS] f32: at most 0
    uint64_t recurrent;    // the recurrent state of lane 0
    uint64_t y;            // [VALUE_HEADS, HEAD_SIZE] f32
    uint x_stride;         // bytes from one row of the step to the next, as the strides below
    uint beta_stride;
    uint alpha_stride;
    uint y_stride;
    uint recurrent_stride; // bytes from one lane's recurrent state to the next one's
} push;

// What a column has of a row, beside the query and the key.
struct Own {
    float value;
    float beta;
    float alpha;
};

// The lane's place among those of its column, its column among those of all heads, and the heads that it belongs to.
uint own_place() { return gl_SubgroupInvocationID % COLUMN_LANES; }
uint own_column() { return flat_subgroup() * SUBGROUP_COLUMNS + gl_SubgroupInvocationID / COLUMN_LANES; }
uint value_head() { return own_column() / HEAD_SIZE; }
uint key_head() { return HEAD_ORDER == GROUPED ? value_head() / (VALUE_HEADS / KEY_HEADS) : value_head() % KEY_HEADS; }
// Whether the value head is the first that its key head serves.
bool is_first_of_key_head() { return HEAD_ORDER == GROUPED ? value_head() % (VALUE_HEADS / KEY_HEADS) == 0 : value_head() < KEY_HEADS; }
// Where the lane's parts and the column's value begin among the channels, in bytes.
uint query_offset() { return key_head() * HEAD_SIZE * 4 + own_place() * 16; }
uint key_offset() { return (KEY_HEADS + key_head()) * HEAD_SIZE * 4 + own_place() * 16; }
uint value_offset() { return (2 * KEY_HEADS * HEAD_SIZE + own_column()) * 4; }

// Where the pending row of a position lies.
uint64_t pending_row(uint64_t recurrent, uint position) {
    return recurrent + uint64_t(PENDING_OFFSET + position % max(PENDING_SLOTS, 1) * PENDING_BYTES);
}

// The rows that a lane takes in: drafts of the step before, then its rows of this one.
struct Run {
    uint64_t recurrent; // the recurrent state of the lane
    uint first_row;     // of its rows in the step
    uint position;      // of that row
    uint replayed;      // drafts before it
};
// Loads row n of a run.
Own load_row(Run run, uint n, out vec4 query[OWN_PARTS], out vec4 key[OWN_PARTS]) {
    bool is_pending = n < run.replayed;
    uint row = run.first_row + max(n, run.replayed) - run.replayed;
    uint64_t pending = pending_row(run.recurrent, run.position - run.replayed + n);
    uint64_t x = is_pending ? pending : push.x + uint64_t(row * push.x_stride);
    uint64_t beta = is_pending ? pending + uint64_t(CHANNELS * 4) : push.beta + uint64_t(row * push.beta_stride);
    uint64_t alpha = is_pending ? pending + uint64_t((CHANNELS + VALUE_HEADS) * 4) : push.alpha + uint64_t(row * push.alpha_stride);
    [[unroll]] for (uint part = 0; part < OWN_PARTS; part++) {
        query[part] = load_vec4(x, query_offset() + part * COLUMN_LANES * 16);
        key[part] = load_vec4(x, key_offset() + part * COLUMN_LANES * 16);
    }
    return Own(load_f32(x, value_offset()), load_f32(beta, value_head() * 4), load_f32(alpha, value_head() * 4));
}

// Stores what the column has to store of a pending row: each value is the column's own, and what columns share is stored by the first of them.
void store_pending(uint64_t row, vec4 query[OWN_PARTS], vec4 key[OWN_PARTS], Own own) {
    bool first = own_column() % HEAD_SIZE == 0;
    if (first && is_first_of_key_head()) {
        [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) {
            store_vec4(row, query_offset() + n * COLUMN_LANES * 16, query[n]);
            store_vec4(row, key_offset() + n * COLUMN_LANES * 16, key[n]);
        }
    }
    if (own_place() != 0) return;
    store_f32(row, value_offset(), own.value);
    if (!first) return;
    store_f32(row, (CHANNELS + value_head()) * 4, own.beta);
    store_f32(row, (CHANNELS + VALUE_HEADS + value_head()) * 4, own.alpha);
}

// The sum of the parts of a column, of which each of its lanes has some: part i and the part half of all behind it are joined, and so on down to
// neighbours. Remainders keep the indices of branches that are not taken in the array.
float column_sum(float parts[OWN_PARTS]) {
    precise float even = parts[0], odd = parts[1 % OWN_PARTS];
    if (OWN_PARTS == 4) {
        even = parts[0] + parts[2 % OWN_PARTS];
        odd = parts[1 % OWN_PARTS] + parts[3 % OWN_PARTS];
    }
    if (OWN_PARTS == 8) {
        precise float half_even = parts[2 % OWN_PARTS] + parts[6 % OWN_PARTS], half_odd = parts[3 % OWN_PARTS] + parts[7 % OWN_PARTS];
        even = parts[0] + parts[4 % OWN_PARTS];
        odd = parts[1 % OWN_PARTS] + parts[5 % OWN_PARTS];
        even = even + half_even;
        odd = odd + half_odd;
    }
    float sum = OWN_PARTS == 1 ? even : sum_of_two(even, odd);
    sum = sum_of_two(sum, subgroupShuffleXor(sum, 4));
    sum = sum_of_two(sum, subgroupShuffleXor(sum, 2));
    return sum_of_two(sum, subgroupShuffleXor(sum, 1));
}
float column_product(vec4 a[OWN_PARTS], vec4 b[OWN_PARTS]) {
    float parts[OWN_PARTS];
    for (uint n = 0; n < OWN_PARTS; n++) parts[n] = part_product(a[n], b[n]);
    return column_sum(parts);
}
// 1 / the length of a vector.
float inverse_length(vec4 x[OWN_PARTS]) {
    precise float square = column_product(x, x) + LENGTH_EPSILON;
    return 1.0 / sqrt(square);
}
float softplus(float x) {
    precise float sum = 1.0 + exp(x);
    return x > 20.0 ? x : log(sum);
}

// Takes a row into the column, and returns what its query reads of it.
float take(inout vec4 column[OWN_PARTS], vec4 query[OWN_PARTS], vec4 key[OWN_PARTS], Own own, float decay, float alpha_bias) {
    precise float gate = own.alpha + alpha_bias;
    gate = decay * softplus(gate);
    float kept = exp(gate);
    float written = sigmoid(own.beta);
    float key_scale = inverse_length(key);
    precise float query_scale = inverse_length(query) * QUERY_SCALE;
    for (uint n = 0; n < OWN_PARTS; n++) {
        precise vec4 part = column[n] * kept;
        column[n] = part;
    }
    precise float known = column_product(column, key) * key_scale;
    precise float change = own.value - known;
    change = written * change;
    change = change * key_scale;
    for (uint n = 0; n < OWN_PARTS; n++) {
        precise vec4 part = key[n] * change;
        part = column[n] + part;
        column[n] = part;
    }
    precise float result = column_product(column, query) * query_scale;
    return result;
}

void main() {
    if (row_count(push.state) == 0 || gl_WorkGroupID.z >= load_uniform_u32(push.state, LANE_COUNT_OFFSET)) return;
    uint number = load_uniform_u32(push.state, LISTED_OFFSET + gl_WorkGroupID.z * 4);
    Lane lane = lane_of(push.state, number);
    uint first_row = lane.first_row, rows = lane.rows;
    uint first = lane.position; // of the first of them
    if (rows == 0 || flat_subgroup() * SUBGROUP_COLUMNS >= VALUE_COLUMNS) return;
    uint64_t recurrent = recurrent_state(push.recurrent, push.recurrent_stride, number);
    uint column_offset = own_column() * HEAD_SIZE * 4 + own_place() * 16, committed_offset = COMMITTED_OFFSET + own_column() * 4;
    uint committed = subgroupShuffle(load_u32(recurrent, committed_offset), 0);
    vec4 column[OWN_PARTS];
    [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) column[n] = load_vec4(recurrent, column_offset + n * COLUMN_LANES * 16);
    float decay = load_f32(push.decay, value_head() * 4), alpha_bias = load_f32(push.alpha_bias, value_head() * 4);

    // A sequence that begins finds its memories empty, whatever was there. A state that cannot be that of the sequence at this position gives no
    // results.
    bool begins = first == 0, usable = begins || first - committed <= DRAFTS;
    uint replayed = DRAFTS > 0 && usable && !begins ? first - committed : 0;
    [[unroll]] for (uint n = 0; n < OWN_PARTS; n++) {
        if (begins || !usable) column[n] = vec4(begins ? 0.0 : uintBitsToFloat(0x7fc00000u));
    }

    // The next row is under way while one is taken.
    Run run = Run(recurrent, first_row, first, replayed);
    uint sure = replayed + sure_rows(lane, first, rows), end = replayed + rows;
    vec4 query[OWN_PARTS], key[OWN_PARTS], next_query[OWN_PARTS], next_key[OWN_PARTS];
    Own next = load_row(run, 0, next_query, next_key);
    for (uint n = 0; n < end; n++) {
        Own own = next;
        [[unroll]] for (uint part = 0; part < OWN_PARTS; part++) {
            query[part] = next_query[part];
            key[part] = next_key[part];
        }
        next = load_row(run, min(n + 1, end - 1), next_query, next_key);
        float result = take(column, query, key, own, decay, alpha_bias);
        if (n >= replayed && own_place() == 0) {
            store_f32(push.y + uint64_t((first_row + n - replayed) * push.y_stride), own_column() * 4, result);
        }
        if (n + 1 == sure) {
            [[unroll]] for (uint part = 0; part < OWN_PARTS; part++) store_vec4(recurrent, column_offset + part * COLUMN_LANES * 16, column[part]);
            if (own_place() == 0) store_u32(recurrent, committed_offset, first - replayed + sure);
        }
        if (DRAFTS > 0 && n >= sure) store_pending(pending_row(recurrent, first - replayed + n), query, key, own);
    }
}
