// The choice of experts: normalises the residual stream, multiplies it with the router's matrix, and takes the USED highest logits.
//
// A workgroup computes one logit, in f32 whatever the form of other activations, because a rounded logit could choose another expert. On
// the way the normalised vector is stored in the form OUT for the experts. The workgroup that finishes last ranks the logits: an expert's
// rank is the number of those that come before it, by falling logit and then by rising index; NaN counts as minus infinity. Logits are
// compared as integers, since a device may flush subnormal floats and then call unequal ones equal.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/reduce.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"
#include "include/activations.glsl"
#include "include/order.glsl"
#include "include/arrivals.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint OUT = 0;
layout(constant_id = 4) const uint FORMAT = 0;
layout(constant_id = 5) const uint WEIGHTING = 0;
const uint SOFTMAX_OF_CHOSEN = 0, SOFTMAX_OF_ALL = 1; // over what the weights sum to 1
const uint MAX_EXPERTS = 1024;
const uint MAX_USED = 128;
const uint ACT = ACT_F32;
const uint NORM = 1;
#include "include/products.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;       // [COLUMNS] f32
    uint64_t norm;    // [COLUMNS] f32
    uint64_t matrix;  // [experts, COLUMNS] in FORMAT, rows in planes
    uint64_t y;       // [COLUMNS] in form OUT
    uint64_t logits;  // [experts] f32
    uint64_t ids;     // [used] u32
    uint64_t weights; // [used] f32
    uint64_t counter; // u32, 0
    uint experts;     // at most MAX_EXPERTS
    uint used;        // at most MAX_USED
    float epsilon;
} push;

shared uvec4 keys[MAX_EXPERTS / 4]; // the logits, ordered
shared float chosen[MAX_USED];

void main() {
    bool live = step_is_live(push.state);
    uint groups = gl_NumWorkGroups.x, row = gl_WorkGroupID.x;
    Operand operand = Operand(push.x, push.norm, 1.0);
    // The root mean square divides the sum in the end, so that one pass serves both.
    vec2 sums = vec2(0.0);
    uint64_t weights = push.matrix + uint64_t(row) * uint64_t(row_bytes(FORMAT, COLUMNS));
    sums.x = row_dot(FORMAT, weights, operand, thread_index(), gl_WorkGroupSize.x);
    [[unroll]] for (uint first = 0; first < COLUMNS / 4; first += gl_WorkGroupSize.x) {
        uint part = first + thread_index();
        vec4 x = part < COLUMNS / 4 ? load_vec4(push.x, part * 16u) : vec4(0.0);
        sums.y += dot(x, x);
    }
    if (!live) return;
    sums = workgroup_sum(sums);
    operand.norm_scale = 1.0 / sqrt(sums.y / float(COLUMNS) + push.epsilon);
    if (thread_index() == 0) store_shared_f32(push.logits, row * 4, sums.x * operand.norm_scale);
    // Each workgroup stores some runs, four lanes a run; not those of the first, which count the arrival.
    const uint own = gl_WorkGroupSize.x / 4;
    for (uint run = (own - 1 - lane_index() / 4) * groups + row; run < RUNS; run += own * groups) {
        uint part = run * 4 + lane_index() % 4;
        store_act(OUT, push.y, COLUMNS, part, normalised(operand, part));
    }
    if (!last_to_arrive(push.counter, groups, false)) return;

    uint padded = (push.experts + 3u) & ~3u;
    for (uint i = thread_index(); i < padded; i += workgroup_size()) {
        uint key = 0u; // below every float
        if (i < push.experts) {
            float value = load_f32(push.logits, i * 4);
            if ((floatBitsToUint(value) & 0x7fffffffu) > 0x7f800000u) value = uintBitsToFloat(0xff800000u);
            key = order_key(value);
        }
        keys[i / 4][i % 4] = key;
    }
    barrier();
    for (uint i = thread_index(); i < push.experts; i += workgroup_size()) {
        uint own = keys[i / 4][i % 4];
        uint rank = 0u;
        for (uint part = 0; part < padded / 4; part++) {
            uvec4 others = keys[part];
            for (uint j = 0; j < 4; j++) {
                if (others[j] > own || (others[j] == own && part * 4 + j < i)) rank++;
            }
        }
        if (rank < push.used) {
            chosen[rank] = order_value(own);
            store_u32(push.ids, rank * 4, i);
        }
    }
    barrier();
    float highest = chosen[0];
    float total = 0.0;
    if (WEIGHTING == SOFTMAX_OF_ALL) {
        for (uint i = thread_index(); i < push.experts; i += workgroup_size()) total += exp(order_value(keys[i / 4][i % 4]) - highest);
        total = workgroup_sum(total);
    } else {
        for (uint n = 0; n < push.used; n++) total += exp(chosen[n] - highest);
    }
    for (uint n = thread_index(); n < push.used; n += workgroup_size()) store_f32(push.weights, n * 4, exp(chosen[n] - highest) / total);
}
