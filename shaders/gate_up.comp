// The first half of a SwiGLU feed-forward layer: y = silu(G x) * (U x), for each chosen expert, or for a dense layer. A workgroup computes
// one run of 16 elements of one slot, so that it can store them in the form that the second half wants.
// (Shazeer: GLU Variants Improve Transformer, 2020.)
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint ACT = 0;
layout(constant_id = 3) const uint COLUMNS = 32;
layout(constant_id = 4) const uint NORM = 0;    // 1: x is the residual stream and is normalised first
layout(constant_id = 5) const uint OUT = 0;     // the form of y
layout(constant_id = 6) const uint EXPERTS = 0; // their number: slot s uses the matrices of the expert of rank s; 0: there is one slot and one pair
layout(constant_id = 7) const uint GATE_FORMAT = 0;
layout(constant_id = 8) const uint UP_FORMAT = 0;
layout(constant_id = 9) const uint AHEAD = 1;   // chunks of each row that a lane loads before it uses the first
layout(constant_id = 10) const uint WEIGHTING = 0;
#include "include/products.glsl"
#include "include/order.glsl"
#include "include/choice.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t gate;    // [experts, rows, COLUMNS] in GATE_FORMAT, rows in planes
    uint64_t up;      // [experts, rows, COLUMNS] in UP_FORMAT, rows in planes
    uint64_t logits;  // [EXPERTS] f32, the router's
    uint64_t ids;     // [slots] u32, written where there are experts
    uint64_t weights; // [slots] f32, likewise
    uint64_t x;       // [COLUMNS]
    uint64_t norm;    // [COLUMNS] f32, read where NORM is 1
    uint64_t y;       // [slots, rows] in form OUT
    uint rows;        // a multiple of 16
    uint slots;       // chosen experts, at most MAX_USED
    float epsilon;
    uint stride;      // bytes from one token's logits, ids, weights, x and y to the next one's
} push;

const uint CHUNKS = COLUMNS / 32;
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP; // at most 16
const uint ROWS = RUN / SUBGROUPS;

shared vec4 results[RUN / 4];

#define LOAD_WEIGHTS(at) { \
    [[unroll]] for (uint n = 0; n < AHEAD; n++) { \
        uint first_chunk = (at) + n * SUBGROUP, chunk = first_chunk + gl_SubgroupInvocationID; \
        if (inside(first_chunk, CHUNKS)) { \
            [[unroll]] for (uint r = 0; r < ROWS; r++) { \
                gate_raw[n * ROWS + r] = load_raw(GATE_FORMAT, gate + uint64_t(r * gate_row_bytes), COLUMNS, chunk); \
                up_raw[n * ROWS + r] = load_raw(UP_FORMAT, up + uint64_t(r * up_row_bytes), COLUMNS, chunk); \
            } \
        } \
    } \
}

void main() {
    bool live = step_is_live(push.state);
    uint runs = push.rows / RUN;
    uint slot = flat_workgroup() / runs, run = flat_workgroup() % runs;
    if (slot >= push.slots) return;
    uint64_t x = own_copy(push.x, push.stride);
    Operand operand;
    uint64_t matrix_row = uint64_t(run * RUN + gl_SubgroupID * ROWS);
    if (EXPERTS > 0) {
        choose_experts(own_copy(push.logits, push.stride), push.slots);
        matrix_row += uint64_t(chosen_ids[slot]) * uint64_t(push.rows);
    }
    uint gate_row_bytes = row_bytes(GATE_FORMAT, COLUMNS), up_row_bytes = row_bytes(UP_FORMAT, COLUMNS);
    uint64_t gate = push.gate + matrix_row * uint64_t(gate_row_bytes);
    uint64_t up = push.up + matrix_row * uint64_t(up_row_bytes);
    float gates[ROWS], ups[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        gates[r] = 0.0;
        ups[r] = 0.0;
    }
    if (ACT != ACT_F32) {
        load_operand(x, push.norm);
        Raw gate_raw[AHEAD * ROWS], up_raw[AHEAD * ROWS];
        LOAD_WEIGHTS(0)
        if (!live) return;
        operand = prepare_operand(x, push.norm, push.epsilon);
        [[unroll]] for (uint at = 0; at < CHUNKS; at += AHEAD * SUBGROUP) {
            if (at > 0) LOAD_WEIGHTS(at)
            [[unroll]] for (uint n = 0; n < AHEAD; n++) {
                uint first_chunk = at + n * SUBGROUP, chunk = first_chunk + gl_SubgroupInvocationID;
                if (inside(first_chunk, CHUNKS)) {
                    ChunkInput input_x = chunk_input(operand, GATE_FORMAT, chunk);
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        gates[r] += quantised_dot(GATE_FORMAT, unpack(GATE_FORMAT, gate_raw[n * ROWS + r], chunk), input_x);
                    }
                    if (UP_FORMAT != GATE_FORMAT) input_x = chunk_input(operand, UP_FORMAT, chunk);
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        ups[r] += quantised_dot(UP_FORMAT, unpack(UP_FORMAT, up_raw[n * ROWS + r], chunk), input_x);
                    }
                }
            }
        }
    } else {
        if (!live) return;
        operand = prepare_operand(x, push.norm, push.epsilon);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            gates[r] = row_dot(GATE_FORMAT, gate + uint64_t(r * gate_row_bytes), operand, gl_SubgroupInvocationID, SUBGROUP);
            ups[r] = row_dot(UP_FORMAT, up + uint64_t(r * up_row_bytes), operand, gl_SubgroupInvocationID, SUBGROUP);
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float gate_sum = subgroupAdd(gates[r]), up_sum = subgroupAdd(ups[r]);
        uint element = gl_SubgroupID * ROWS + r;
        if (subgroupElect()) results[element / 4][element % 4] = gate_sum / (1.0 + exp(-gate_sum)) * up_sum;
    }
    barrier();
    // The second half of the layer wants the choice, too.
    if (EXPERTS > 0 && flat_workgroup() == 0) {
        store_choice(own_copy(push.ids, push.stride), own_copy(push.weights, push.stride), push.slots);
    }
    if (lane_index() < RUN / 4) {
        uint64_t y = own_copy(push.y, push.stride) + uint64_t(slot * act_bytes(OUT, push.rows));
        store_act(OUT, y, push.rows, run * (RUN / 4) + lane_index(), results[lane_index()]);
    }
}
