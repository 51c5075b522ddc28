// The second half of an expert layer, onto the residual stream: y += sum over slots of weight[s] * (D[ids[s]] h[s]).
// One subgroup computes one row: its lanes share out the chunks of all slots.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint ACT = 0;      // the form of h
layout(constant_id = 3) const uint COLUMNS = 32;
layout(constant_id = 4) const uint FORMAT = 0;
layout(constant_id = 5) const uint SLOTS = 1;
layout(constant_id = 6) const uint AHEAD = 1;    // chunks that a lane loads before it uses the first
const uint NORM = 0;
#include "include/products.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t down;    // [experts, rows, COLUMNS] in FORMAT, rows in planes: less than 4 GiB
    uint64_t ids;     // [SLOTS] u32
    uint64_t weights; // [SLOTS] f32
    uint64_t h;       // [SLOTS, COLUMNS] in form ACT
    uint64_t y;       // [rows] f32
    uint rows;
    uint stride;      // bytes from one token's ids, weights, h and y to the next one's
} push;

const uint CHUNKS = COLUMNS / 32;

// Of `each`, an array by slot, the entry of a lane's item; the subgroup's items begin at `first`. A subgroup is in few slots, known at compile
// time, and their entries are the same for all lanes: selecting costs less than a load by each lane.
#define OF_SLOT(entry, each, first, item) \
    entry = each[min(first / CHUNKS, SLOTS - 1)]; \
    [[unroll]] for (uint s = 1; s < SLOTS; s++) { \
        if (s * CHUNKS > first && s * CHUNKS < first + SUBGROUP && item >= s * CHUNKS) entry = each[s]; \
    }

#define LOAD_WEIGHTS(at) { \
    [[unroll]] for (uint n = 0; n < AHEAD; n++) { \
        uint first = (at) + n * SUBGROUP, item = first + gl_SubgroupInvocationID; \
        if (inside(first, CHUNKS * SLOTS)) { \
            uint expert; \
            OF_SLOT(expert, experts, first, item) \
            raw[n] = load_raw(FORMAT, push.down + uint64_t((expert * push.rows + row) * bytes), COLUMNS, item % CHUNKS); \
        } \
    } \
}

void main() {
    bool live = step_is_live(push.state);
    uint row = flat_subgroup();
    if (row >= push.rows) return;
    uint64_t ids = own_copy(push.ids, push.stride), shares = own_copy(push.weights, push.stride);
    uint64_t h = own_copy(push.h, push.stride), y = own_copy(push.y, push.stride);
    float before = load_f32(y, row * 4);
    uint bytes = row_bytes(FORMAT, COLUMNS);
    float sum = 0.0;
    if (ACT != ACT_F32) {
        uint experts[SLOTS];
        float weights[SLOTS];
        [[unroll]] for (uint slot = 0; slot < SLOTS; slot++) {
            experts[slot] = load_uniform_u32(ids, slot * 4);
            weights[slot] = uintBitsToFloat(load_uniform_u32(shares, slot * 4));
        }
        Raw raw[AHEAD];
        LOAD_WEIGHTS(0)
        if (!live) return;
        [[unroll]] for (uint at = 0; at < CHUNKS * SLOTS; at += AHEAD * SUBGROUP) {
            if (at > 0) LOAD_WEIGHTS(at)
            [[unroll]] for (uint n = 0; n < AHEAD; n++) {
                uint first = at + n * SUBGROUP, item = first + gl_SubgroupInvocationID;
                if (inside(first, CHUNKS * SLOTS)) {
                    uint slot = item / CHUNKS, chunk = item % CHUNKS;
                    float weight;
                    OF_SLOT(weight, weights, first, item)
                    Operand operand = Operand(h + uint64_t(slot * act_bytes(ACT, COLUMNS)), 0, 1.0);
                    float product = quantised_dot(FORMAT, unpack(FORMAT, raw[n], chunk), chunk_input(operand, FORMAT, chunk));
                    sum += weight * product;
                }
            }
        }
    } else {
        if (!live) return;
        for (uint slot = 0; slot < SLOTS; slot++) {
            uint64_t weights = push.down + uint64_t((load_u32(ids, slot * 4) * push.rows + row) * bytes);
            Operand operand = Operand(h + uint64_t(slot * act_bytes(ACT, COLUMNS)), 0, 1.0);
            sum += load_f32(shares, slot * 4) * row_dot(FORMAT, weights, operand, gl_SubgroupInvocationID, SUBGROUP);
        }
    }
    sum = subgroupAdd(sum);
    if (subgroupElect()) store_f32(y, row * 4, before + sum);
}
