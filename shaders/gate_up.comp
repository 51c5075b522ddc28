// The first half of a feed-forward layer: y = activated(G x, U x), such as silu(G x) * (U x), for each chosen expert, or for a dense layer. A workgroup
// computes one run of 16 elements of one slot, or several: what it needs to know of the vector and of the chosen experts serves all of them. Of a dense layer
// it computes them for VECTORS vectors, those of as many rows of the step, so that weights are read and unpacked once for all of them.
// (Shazeer: GLU Variants Improve Transformer, 2020.)
#version 460
#extension GL_GOOGLE_include_directive : require
layout(constant_id = 13) const uint VECTORS = 1; // of a workgroup: those of the step's rows from gl_WorkGroupID.z * VECTORS on; 1 with experts and with f32 activations
#define ROW_INDEX (gl_WorkGroupID.z * VECTORS)
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"

layout(constant_id = 2) const uint ACT = 0;
layout(constant_id = 3) const uint COLUMNS = 32;
layout(constant_id = 4) const uint SOURCE = 0;
layout(constant_id = 5) const uint EXPERTS = 0; // their number: slot s uses the matrices of the expert of rank s; 0: there is one slot and one pair
layout(constant_id = 6) const uint GATE_FORMAT = 0;
layout(constant_id = 7) const uint UP_FORMAT = 0;
layout(constant_id = 8) const uint AHEAD = 1;   // quarters of each row that a lane loads before it uses the first: 2 * AHEAD * PAIRS is at most 4
layout(constant_id = 9) const uint WEIGHTING = 0;
layout(constant_id = 10) const uint RUNS_OF_WORKGROUP = 1; // runs that a workgroup computes, one after the other
layout(constant_id = 11) const uint ACTIVATION = 0;
layout(constant_id = 12) const uint BIASES = 0; // 1: they are added to the products
#include "include/operand.glsl"
#include "include/quarters.glsl"
#include "include/float_operand.glsl"
#include "include/float_products.glsl"
#include "include/order.glsl"
#include "include/choice.glsl"
#include "include/swiglu.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t gate;    // [experts, rows, COLUMNS] in GATE_FORMAT, rows in planes
    uint64_t up;      // [experts, rows, COLUMNS] in UP_FORMAT, rows in planes
    uint64_t logits;  // [EXPERTS] f32, the router's
    uint64_t ids;     // [slots] u32, written where there are experts
    uint64_t weights; // [slots] f32, likewise
    uint64_t x;       // [COLUMNS]
    uint64_t norm;    // [COLUMNS] f32, read where SOURCE is NORMALISED
    uint64_t y;       // [slots, rows] f32
    uint rows;        // a multiple of 16
    uint slots;       // chosen experts, at most MAX_USED
    float epsilon;
    uint logits_stride; // bytes from one row of the step to the next, as the strides below
    uint ids_stride;
    uint weights_stride;
    uint x_stride;
    uint y_stride;
    uint64_t gate_bias; // [experts, rows] f32, read where BIASES is 1
    uint64_t up_bias;   // likewise
} push;

const uint SUBGROUP_ROWS = RUN / SUBGROUPS; // of each matrix, by one subgroup
const uint SIDE_BY_SIDE = LANE_ROWS < SUBGROUP_ROWS ? LANE_ROWS : SUBGROUP_ROWS;
const uint ROWS = SUBGROUP_ROWS / SIDE_BY_SIDE; // of a lane

shared float values[VECTORS * 2 * RUN * (GROUPS + 1)]; // [vector, matrix, row, group]; what is between spreads rows over memory banks
#include "include/products.glsl"

// Rows of each matrix that a lane takes at a time.
const uint PAIRS = ROWS < 2 ? ROWS : 2;

uint value_place(uint vector, uint matrix, uint row, uint group) { return ((vector * 2 + matrix) * RUN + row) * (GROUPS + 1) + group; }

// Products with activations of 14 bits: of the subgroup's rows of `gate` and `up` with the first `count` vectors of the workgroup, the values of their groups.
void rounded_products(uint64_t gate, uint64_t up, uint64_t x, uint count) {
    uint gate_bytes = row_bytes(GATE_FORMAT, COLUMNS), up_bytes = row_bytes(UP_FORMAT, COLUMNS);
    uint first_row = min(lane_row(), SIDE_BY_SIDE - 1) * ROWS;
    gate += uint64_t(first_row * gate_bytes);
    up += uint64_t(first_row * up_bytes);
    for (uint row = 0; row < ROWS; row += PAIRS) {
        for (uint step = 0; step < STEPS; step += AHEAD) {
            Quarter weights[AHEAD * PAIRS * 2]; // [step, row, matrix]
            [[unroll]] for (uint n = 0; n < AHEAD; n++) {
                uint quarter = (step + n) * ROW_LANES + row_lane();
                [[unroll]] for (uint r = 0; r < PAIRS; r++) {
                    weights[(n * PAIRS + r) * 2] = load_quarter(GATE_FORMAT, gate + uint64_t((row + r) * gate_bytes), COLUMNS, quarter);
                    weights[(n * PAIRS + r) * 2 + 1] = load_quarter(UP_FORMAT, up + uint64_t((row + r) * up_bytes), COLUMNS, quarter);
                }
            }
            Unpacked unpacked[AHEAD * PAIRS * 2];
            [[unroll]] for (uint n = 0; n < AHEAD * PAIRS; n++) {
                uint quarter = (step + n / PAIRS) * ROW_LANES + row_lane();
                unpacked[n * 2] = unpack_quarter(GATE_FORMAT, weights[n * 2], quarter);
                unpacked[n * 2 + 1] = unpack_quarter(UP_FORMAT, weights[n * 2 + 1], quarter);
            }
            // For a workgroup of one vector what depends on their number is constant, so that no load waits for it.
            for (uint vector = 0; vector < (VECTORS == 1 ? 1 : count); vector++) {
                uint64_t own_x = x + uint64_t(vector * push.x_stride);
                Items items;
                [[unroll]] for (uint n = 0; n < AHEAD; n++) {
                    uint quarter = (step + n) * ROW_LANES + row_lane();
                    QuarterInput v = quarter_input(GATE_FORMAT, own_x, vector, quarter);
                    [[unroll]] for (uint r = 0; r < PAIRS; r++) take_item(items, (n * PAIRS + r) * 2, GATE_FORMAT, unpacked[(n * PAIRS + r) * 2], v, quarter);
                    if (UP_FORMAT != GATE_FORMAT) v = quarter_input(UP_FORMAT, own_x, vector, quarter);
                    [[unroll]] for (uint r = 0; r < PAIRS; r++) {
                        uint k = (n * PAIRS + r) * 2 + 1;
                        take_item(items, k, UP_FORMAT, unpacked[k], v, quarter);
                    }
                }
                const uint item_count = AHEAD * PAIRS * 2;
                uint own = own_item(item_count), group = ((step + own / (2 * PAIRS)) * ROW_LANES + row_lane()) / 4;
                float scale = load_scale(own_x, vector, min(group, GROUPS - 1));
                float value = item_value(items, item_count, GATE_FORMAT, scale);
                if (UP_FORMAT != GATE_FORMAT) {
                    float of_up = item_value(items, item_count, UP_FORMAT, scale);
                    value = own % 2 == 1 ? of_up : value;
                }
                uint own_row = lane_row() * ROWS + row + own / 2 % PAIRS;
                if (own < item_count && group < GROUPS && own_row < SUBGROUP_ROWS) {
                    values[value_place(vector, own % 2, gl_SubgroupID * SUBGROUP_ROWS + own_row, group)] = value;
                }
            }
        }
    }
}

// Products with f32 activations: likewise.
void float_products(uint64_t gate, uint64_t up, Operand operand) {
    uint gate_bytes = row_bytes(GATE_FORMAT, COLUMNS), up_bytes = row_bytes(UP_FORMAT, COLUMNS);
    for (uint r = 0; r < SUBGROUP_ROWS; r++) {
        uint row = gl_SubgroupID * SUBGROUP_ROWS + r;
        uint64_t gate_row = gate + uint64_t(r * gate_bytes), up_row = up + uint64_t(r * up_bytes);
        for (uint group = 0; group < GROUPS; group += groups_at_a_time(GATE_FORMAT)) sum_groups(GATE_FORMAT, gate_row, operand, value_place(0, 0, row, 0), group);
        for (uint group = 0; group < GROUPS; group += groups_at_a_time(UP_FORMAT)) sum_groups(UP_FORMAT, up_row, operand, value_place(0, 1, row, 0), group);
    }
}

// The product of a row of the run and a vector, from the values of its groups, plus `bias` where there are biases.
float product(uint vector, uint matrix, uint row, float bias) {
    precise float sum = values[value_place(vector, matrix, row, 0)];
    for (uint group = 1; group < GROUPS; group++) sum = sum + values[value_place(vector, matrix, row, group)];
    if (BIASES == 1) sum = sum + bias;
    return sum;
}

// Computes run `run` of the slot for the first `count` vectors of the workgroup. The whole workgroup takes part.
void compute_run(uint slot, uint run, uint64_t first_row, uint64_t x, Operand operand, uint count) {
    uint64_t matrix_row = first_row + uint64_t(run * RUN + gl_SubgroupID * SUBGROUP_ROWS);
    uint64_t gate = push.gate + matrix_row * uint64_t(row_bytes(GATE_FORMAT, COLUMNS));
    uint64_t up = push.up + matrix_row * uint64_t(row_bytes(UP_FORMAT, COLUMNS));
    if (ACT == ACT_Q14) rounded_products(gate, up, x, count);
    else float_products(gate, up, operand);
    barrier();
    for (uint result = thread_index(); result < RUN * (VECTORS == 1 ? 1 : count); result += gl_WorkGroupSize.x) {
        uint row = result % RUN, vector = VECTORS == 1 ? 0 : result / RUN;
        float gate_bias = 0.0, up_bias = 0.0;
        if (BIASES == 1) {
            uint64_t first_bias = (first_row + uint64_t(run * RUN)) * 4;
            gate_bias = load_f32(push.gate_bias + first_bias, row * 4u);
            up_bias = load_f32(push.up_bias + first_bias, row * 4u);
        }
        uint64_t y = of_row(push.y, push.y_stride) + uint64_t(vector * push.y_stride);
        float gate_product = product(vector, 0, row, gate_bias), up_product = product(vector, 1, row, up_bias);
        store_f32(y, (slot * push.rows + run * RUN + row) * 4u, activated(gate_product, up_product));
    }
}

void main() {
    uint listed = row_count(push.state);
    uint runs = push.rows / RUN, workgroups = (runs + RUNS_OF_WORKGROUP - 1) / RUNS_OF_WORKGROUP; // of a slot
    uint slot = flat_workgroup() / workgroups, first_run = flat_workgroup() % workgroups * RUNS_OF_WORKGROUP;
    if (slot >= push.slots) return;
    uint64_t x = of_row(push.x, push.x_stride);
    Vectors vectors = Vectors(x, push.norm, push.x_stride, VECTORS);
    load_operand(vectors);
    uint64_t first_row = 0; // of the slot's matrices
    if (EXPERTS > 0) {
        choose_experts(of_row(push.logits, push.logits_stride), push.slots);
        first_row = uint64_t(chosen_ids[slot]) * uint64_t(push.rows);
    }
    if (listed <= row_index()) return;
    uint count = min(listed - row_index(), VECTORS);
    vectors.count = count;
    Operand operand = Operand(x, push.norm, 1.0);
    if (ACT == ACT_F32) {
        operand = prepare_operand(x, push.norm, push.epsilon);
    } else if (SOURCE != ROUNDED) {
        stage(vectors, push.epsilon);
        barrier();
    }
    for (uint turn = 0; turn < RUNS_OF_WORKGROUP; turn++) {
        if (first_run + turn >= runs) break;
        if (turn > 0) barrier(); // the values of the run before have been read
        compute_run(slot, first_run + turn, first_row, x, operand, count);
    }
    // The second half of the layer wants the choice, too.
    if (EXPERTS > 0 && flat_workgroup() == 0) {
        store_choice(of_row(push.ids, push.ids_stride), of_row(push.weights, push.weights_stride), push.slots);
    }
}
