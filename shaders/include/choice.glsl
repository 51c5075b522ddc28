// The choice of experts from the router's logits, by every workgroup that needs it: that costs less than to wait for one workgroup's choice.
//
// An expert's rank is the number of those that come before it, by falling logit and then by rising index; NaN counts as minus infinity. Logits
// are compared as integers, since a device may flush subnormal floats and then call unequal ones equal.
// Whoever includes this has the specialisation constants EXPERTS (their number, 0 where nothing is to be chosen) and WEIGHTING.
#include "include/group_sums.glsl"

const uint SOFTMAX_OF_CHOSEN = 0, SOFTMAX_OF_ALL = 1; // over what the weights sum to 1
const uint MAX_EXPERTS = 1024;
const uint MAX_USED = 128;

const uint KEY_PARTS = (EXPERTS + 3) / 4;
// Neighbouring lanes that rank one expert together.
const uint SHARERS = EXPERTS * 8 <= gl_WorkGroupSize.x ? 8 : EXPERTS * 4 <= gl_WorkGroupSize.x ? 4 : EXPERTS * 2 <= gl_WorkGroupSize.x ? 2 : 1;
shared uvec4 keys[KEY_PARTS + 1]; // the logits, ordered
shared float chosen_logits[MAX_USED];
shared uint chosen_ids[MAX_USED];

// Ranks the logits: the `used` first are in `chosen_ids` and `chosen_logits` afterwards. Every thread of the workgroup takes part.
void choose_experts(uint64_t logits, uint used) {
    [[unroll]] for (uint first = 0; first < KEY_PARTS * 4; first += gl_WorkGroupSize.x) {
        uint i = first + thread_index();
        if (i >= KEY_PARTS * 4) continue;
        uint key = 0u; // below every float
        if (i < EXPERTS) {
            float value = load_f32(logits, i * 4);
            if ((floatBitsToUint(value) & 0x7fffffffu) > 0x7f800000u) value = uintBitsToFloat(0xff800000u);
            key = order_key(value); // below the largest number, so that one can be added
        }
        keys[i / 4][i % 4] = key;
    }
    barrier();
    [[unroll]] for (uint first = 0; first < EXPERTS; first += gl_WorkGroupSize.x / SHARERS) {
        uint i = first + lane_index() / SHARERS, key_part = min(i, EXPERTS - 1);
        uint own = keys[key_part / 4][key_part % 4];
        uvec4 before = uvec4(0u);
        for (uint part = lane_index() % SHARERS; part < KEY_PARTS; part += SHARERS) {
            // Of equal ones those with a lower index come before: for them `others >= own` is asked.
            uvec4 lower = uvec4(lessThan(part * 4u + uvec4(0u, 1u, 2u, 3u), uvec4(i)));
            before += uvec4(greaterThanEqual(keys[part], own + 1u - lower));
        }
        uint rank = before.x + before.y + before.z + before.w;
        [[unroll]] for (uint apart = 1; apart < SHARERS; apart *= 2) rank += subgroupShuffleXor(rank, apart);
        if (i < EXPERTS && rank < used && lane_index() % SHARERS == 0) {
            chosen_ids[rank] = i;
            chosen_logits[rank] = order_value(own);
        }
    }
    barrier();
}

// The term of a logit in a softmax.
float softmax_term(float logit, float highest) {
    precise float below = logit - highest;
    return exp(below);
}
// The terms of a part of four experts, added one after the other; experts that there are not count as 0.
float part_terms(uint part, float highest) {
    precise float sum = softmax_term(order_value(keys[part].x), highest);
    for (uint n = 1; n < 4; n++) sum = sum + (part * 4 + n < EXPERTS ? softmax_term(order_value(keys[part][n]), highest) : 0.0);
    return sum;
}
// The sum of the terms of all experts in the order of docs/arithmetic.md. Every lane gets it.
float sum_of_all(float highest) {
    precise float total;
    for (uint group = 0; group * 64 < KEY_PARTS; group++) {
        float parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            uint part = group * 64 + n * SUBGROUP + gl_SubgroupInvocationID;
            parts[n] = part < KEY_PARTS ? part_terms(part, highest) : 0.0;
        }
        float sum = group_sum(parts);
        total = group == 0 ? sum : total + sum;
    }
    return total;
}

// Stores the chosen ids and weights. Every thread of the workgroup takes part, after `choose_experts`.
void store_choice(uint64_t ids, uint64_t weights, uint used) {
    float highest = chosen_logits[0];
    precise float total = softmax_term(highest, highest);
    if (WEIGHTING == SOFTMAX_OF_ALL) {
        total = sum_of_all(highest);
    } else {
        for (uint n = 1; n < used; n++) total = total + softmax_term(chosen_logits[n], highest);
    }
    for (uint n = thread_index(); n < used; n += gl_WorkGroupSize.x) {
        store_u32(ids, n * 4, chosen_ids[n]);
        store_f32(weights, n * 4, softmax_term(chosen_logits[n], highest) / total);
    }
}
