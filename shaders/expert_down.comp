// The second half of an expert layer, onto the residual stream: y += sum over slots of weight[s] * (D[ids[s]] h[s] + bias[ids[s]]), plus what a shared
// expert gives times the sigmoid of its gate.
// A subgroup computes one row: its lanes share out the quarters of all slots.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"
#include "include/sigmoid.glsl"

layout(constant_id = 2) const uint ACT = 0;
layout(constant_id = 3) const uint COLUMNS = 32;
layout(constant_id = 4) const uint FORMAT = 0;
layout(constant_id = 5) const uint SLOTS = 1;
layout(constant_id = 6) const uint AHEAD = 1;    // quarters that a lane loads before it uses the first: at most 4
layout(constant_id = 7) const uint SOURCE = 0;
layout(constant_id = 8) const uint BIAS = 0;     // 1: it is added to the products
layout(constant_id = 9) const uint SHARED = 0;   // 1: there is a shared expert
#define VECTORS SLOTS
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/float_operand.glsl"
#include "include/float_products.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t down;    // [experts, rows, COLUMNS] in FORMAT, rows in planes: less than 4 GiB
    uint64_t ids;     // [SLOTS] u32
    uint64_t weights; // [SLOTS] f32
    uint64_t h;       // [SLOTS, COLUMNS] f32, or rounded
    uint64_t y;       // [rows] f32
    uint64_t bias;    // [experts, rows] f32, read where BIAS is 1
    uint64_t shared_y;     // [rows] f32, what the shared expert gives, read where SHARED is 1
    uint64_t shared_logit; // 1 f32, the logit of its gate, likewise
    uint rows;
    uint ids_stride;  // bytes from one row of the step to the next, as the strides below
    uint weights_stride;
    uint h_stride;
    uint y_stride;
    uint shared_y_stride;
    uint shared_logit_stride;
} push;

// The quarters of a row in all slots, in steps of one a lane.
const uint SLOT_QUARTERS = GROUPS * 4;
const uint ALL_STEPS = (SLOTS * SLOT_QUARTERS + SUBGROUP - 1) / SUBGROUP;
shared float values[SUBGROUPS * SLOTS * GROUPS]; // [row, slot, group]
#include "include/products.glsl"

// Of `each`, an array by slot, the entry of a lane's quarter; the subgroup's begin at `first`. A subgroup is in few slots, and their entries are
// the same for all lanes: selecting costs less than a load by each lane.
#define OF_SLOT(entry, each, first, quarter) \
    entry = each[min((first) / SLOT_QUARTERS, SLOTS - 1)]; \
    [[unroll]] for (uint s = 1; s < SLOTS; s++) { \
        if (s * SLOT_QUARTERS > (first) && s * SLOT_QUARTERS < (first) + SUBGROUP && (quarter) >= s * SLOT_QUARTERS) entry = each[s]; \
    }

#define LOAD_WEIGHTS(step) { \
    [[unroll]] for (uint n = 0; n < AHEAD; n++) { \
        uint start = ((step) + n) * SUBGROUP, quarter = start + gl_SubgroupInvocationID; \
        uint expert; \
        OF_SLOT(expert, experts, start, quarter) \
        weights[n] = load_quarter(FORMAT, push.down + uint64_t((expert * push.rows + row) * bytes), COLUMNS, quarter % SLOT_QUARTERS); \
    } \
}

// Loads what the experts of the slots add to their products of a row; 0 where nothing is added.
void load_biases(uint64_t ids, uint row, out float biases[SLOTS]) {
    [[unroll]] for (uint slot = 0; slot < SLOTS; slot++) {
        biases[slot] = BIAS == 1 ? load_f32(push.bias, (load_uniform_u32(ids, slot * 4) * push.rows + row) * 4) : 0.0;
    }
}

// Loads what the shared expert gives to a row, and the logit of its gate; zeros where there is none.
vec2 load_shared_expert(uint row) {
    if (SHARED == 0) return vec2(0.0);
    uint64_t y = of_row(push.shared_y, push.shared_y_stride), logit = of_row(push.shared_logit, push.shared_logit_stride);
    return vec2(load_f32(y, row * 4), load_uniform_f32(logit, 0));
}

// A row of the residual stream with the shares of the experts, from the values of their groups and what `load_shared_expert` has loaded.
float with_experts(float before, float biases[SLOTS], vec2 of_shared, uint64_t shares) {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    precise float sum;
    for (uint slot = 0; slot < SLOTS; slot++) {
        uint first = (gl_SubgroupID * SLOTS + slot) * GROUPS;
        precise float product = values[first];
        for (uint group = 1; group < GROUPS; group++) product = product + values[first + group];
        if (BIAS == 1) product = product + biases[slot];
        precise float share = load_uniform_f32(shares, slot * 4) * product;
        sum = slot == 0 ? share : sum + share;
    }
    if (SHARED == 1) {
        precise float share = sigmoid(of_shared.y) * of_shared.x;
        sum = sum + share;
    }
    sum = before + sum;
    return sum;
}

// The row with activations of 14 bits. Every thread takes part, those behind the last row with that one.
void rounded_row(bool live, uint own_row, uint64_t ids, uint64_t shares, uint64_t h, uint64_t y) {
    Vectors vectors = Vectors(h, 0, COLUMNS * 4u, SLOTS);
    load_operand(vectors);
    uint row = min(own_row, push.rows - 1);
    float before = load_f32(y, row * 4);
    uint bytes = row_bytes(FORMAT, COLUMNS);
    uint experts[SLOTS];
    [[unroll]] for (uint slot = 0; slot < SLOTS; slot++) experts[slot] = load_uniform_u32(ids, slot * 4);
    Quarter weights[AHEAD];
    LOAD_WEIGHTS(0)
    float biases[SLOTS]; // needed last, and so sent for last
    load_biases(ids, row, biases);
    vec2 of_shared = load_shared_expert(row);
    if (!live) return;
    stage(vectors, 0.0);
    barrier();
    [[unroll]] for (uint step = 0; step < ALL_STEPS; step += AHEAD) {
        if (step > 0) LOAD_WEIGHTS(step)
        Items items;
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            uint quarter = (step + n) * SUBGROUP + gl_SubgroupInvocationID, slot = min(quarter / SLOT_QUARTERS, SLOTS - 1);
            quarter %= SLOT_QUARTERS;
            QuarterInput v = quarter_input(FORMAT, h + uint64_t(slot * rounded_bytes(GROUPS)), slot, quarter);
            take_item(items, n, FORMAT, unpack_quarter(FORMAT, weights[n], quarter), v, quarter);
        }
        // The groups of all slots are numbered on end.
        uint own = own_item(AHEAD), group = ((step + own) * SUBGROUP + gl_SubgroupInvocationID) / 4;
        uint slot = min(group / GROUPS, SLOTS - 1);
        float value = item_value(items, AHEAD, FORMAT, load_scale(h + uint64_t(slot * rounded_bytes(GROUPS)), slot, group % GROUPS));
        if (own < AHEAD && group < SLOTS * GROUPS) values[gl_SubgroupID * SLOTS * GROUPS + group] = value;
    }
    float sum = with_experts(before, biases, of_shared, shares);
    if (own_row < push.rows && subgroupElect()) store_f32(y, row * 4, sum);
}

void main() {
    bool live = row_is_live(push.state);
    uint row = flat_subgroup();
    uint64_t ids = of_row(push.ids, push.ids_stride), shares = of_row(push.weights, push.weights_stride);
    uint64_t h = of_row(push.h, push.h_stride), y = of_row(push.y, push.y_stride);
    if (ACT == ACT_Q14) {
        rounded_row(live, row, ids, shares, h, y);
        return;
    }
    if (row >= push.rows || !live) return;
    float before = load_f32(y, row * 4);
    float biases[SLOTS];
    load_biases(ids, row, biases);
    vec2 of_shared = load_shared_expert(row);
    uint bytes = row_bytes(FORMAT, COLUMNS);
    for (uint slot = 0; slot < SLOTS; slot++) {
        uint64_t weights = push.down + uint64_t((load_u32(ids, slot * 4) * push.rows + row) * bytes);
        Operand operand = Operand(h + uint64_t(slot * COLUMNS * 4u), 0, 1.0);
        uint place = (gl_SubgroupID * SLOTS + slot) * GROUPS;
        for (uint group = 0; group < GROUPS; group += groups_at_a_time(FORMAT)) sum_groups(FORMAT, weights, operand, place, group);
    }
    float sum = with_experts(before, biases, of_shared, shares);
    if (subgroupElect()) store_f32(y, row * 4, sum);
}
