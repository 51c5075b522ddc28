// Chooses the experts of a token: the highest `used` of the router's logits, ties to the lower index, NaN as minus infinity, and their
// weights: the softmax over all experts, or over the chosen ones only (which equals renormalising the former). One subgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/state.glsl"
#include "include/workgroup.glsl"
#include "include/order.glsl"

layout(constant_id = 2) const uint WEIGHTING = 0;
const uint SOFTMAX_OF_CHOSEN = 0, SOFTMAX_OF_ALL = 1;
const uint MAX_EXPERTS = 1024;

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t logits;  // [experts] f32
    uint64_t ids;     // [used] u32
    uint64_t weights; // [used] f32
    uint experts;     // at most 1,024
    uint used;
} push;

// Each lane reads and writes its own entries alone, so that no barrier is needed.
shared uint keys[MAX_EXPERTS]; // the logits, ordered
shared uint taken[MAX_EXPERTS];

void main() {
    if (!step_is_live(push.state)) return;
    uint lane = gl_SubgroupInvocationID;
    uint all_highest = 0;
    for (uint i = lane; i < push.experts; i += SUBGROUP) {
        float value = load_f32(push.logits, i * 4);
        if ((floatBitsToUint(value) & 0x7fffffffu) > 0x7f800000u) value = uintBitsToFloat(0xff800000u);
        keys[i] = order_key(value);
        taken[i] = 0;
        all_highest = max(all_highest, keys[i]);
    }
    float maximum = order_value(subgroupMax(all_highest));

    float total = 0.0;
    for (uint n = 0; n < push.used; n++) {
        uint best = 0;
        uint best_index = 0xffffffffu;
        for (uint i = lane; i < push.experts; i += SUBGROUP) {
            if (taken[i] == 0 && (best_index == 0xffffffffu || keys[i] > best)) {
                best = keys[i];
                best_index = i;
            }
        }
        uint highest = subgroupMax(best);
        uint chosen = subgroupMin(best_index != 0xffffffffu && best == highest ? best_index : 0xffffffffu);
        if (chosen % SUBGROUP == lane) taken[chosen] = 1;
        float weight = exp(order_value(highest) - maximum);
        total += weight;
        if (lane == 0) {
            store_u32(push.ids, n * 4, chosen);
            store_f32(push.weights, n * 4, weight);
        }
    }
    if (WEIGHTING == SOFTMAX_OF_ALL) {
        total = 0.0;
        for (uint i = lane; i < push.experts; i += SUBGROUP) total += exp(order_value(keys[i]) - maximum);
        total = subgroupAdd(total);
    }
    if (lane == 0) {
        for (uint n = 0; n < push.used; n++) store_f32(push.weights, n * 4, load_f32(push.weights, n * 4) / total);
    }
}
