// Products of a row of weights of any format with the f32 activations of a row, as docs/arithmetic.md defines them: the weights are decoded, and the
// products summed in the order of the page. The Rust twin is `reference::float_product`.
//
// A subgroup computes the sums of groups of 256. Its lanes share out the parts of a group of float weights. Of quantised weights eight neighbouring
// lanes take a group, each one chunk, so that a subgroup has as many groups at a time as it has eights of lanes.
// Whoever includes this has `float_operand.glsl`, `float_products.glsl` and the shared array `values`, where the sums of groups are put.

// Groups of float weights that a subgroup takes at a time, unless whoever includes this says how many: a lane has eight parts of them, so that as many
// loads are under way.
#ifndef FLOAT_GROUPS
#define FLOAT_GROUPS (8 / LANE_PARTS < GROUPS ? 8 / LANE_PARTS : GROUPS)
#endif
uint groups_at_a_time(uint format) { return is_float(format) ? FLOAT_GROUPS : SUBGROUP / 8; }

// Puts the sums of groups of float weights into `values`, as `sum_groups` does.
void sum_float_groups(uint format, uint64_t row, Operand operand, uint place, uint first) {
    vec4 weights[FLOAT_GROUPS * LANE_PARTS], x[FLOAT_GROUPS * LANE_PARTS];
    [[unroll]] for (uint n = 0; n < FLOAT_GROUPS * LANE_PARTS; n++) {
        uint part = inside(own_part(first + n / LANE_PARTS, n % LANE_PARTS));
        weights[n] = load_floats(format, row, part);
        x[n] = operand_floats(operand, part);
    }
    [[unroll]] for (uint g = 0; g < FLOAT_GROUPS; g++) {
        float parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            float product = part_product(weights[g * LANE_PARTS + n], x[g * LANE_PARTS + n]);
            parts[n] = own_part(first + g, n) < PARTS ? product : 0.0;
        }
        float sum = group_sum(parts);
        if (subgroupElect() && first + g < GROUPS) values[place + first + g] = sum;
    }
}

// The sums of the four parts of a run.
vec4 run_products(uint format, uvec4 codes, vec2 scale, Operand operand, uint run) {
    vec4 sums;
    for (uint n = 0; n < 4; n++) sums[n] = part_product(dequantised(format, codes[n], scale), operand_floats(operand, run * 4u + n));
    return sums;
}

// The sum of the group of quantised weights that the lane's chunk is in. Each of the group's eight lanes gets it.
float quantised_group(uint format, uint64_t row, Operand operand, uint chunk) {
    uint loaded = min(chunk, COLUMNS / 32 - 1);
    Chunk weights = unpack(format, load_raw(format, row, COLUMNS, loaded), loaded);
    uvec2 runs = chunk_runs(format, loaded);
    vec4 first = run_products(format, weights.a, weights.a_scale, operand, runs.x);
    vec4 second = run_products(format, weights.b, weights.b_scale, operand, runs.y);
    if (chunk != loaded) first = second = vec4(0.0);
    // A part is joined with those of the run that is eight runs further, then four, two and one. Lanes that are four apart have runs that are eight
    // apart: one of them goes on with the first runs of both chunks, the other with the second ones.
    bool upper = (gl_SubgroupInvocationID & 4u) != 0u;
    precise vec4 sums = (upper ? second : first) + subgroupShuffleXor(upper ? first : second, 4);
    uint apart = chunk_runs(format, 0).y - chunk_runs(format, 0).x;
    for (uint distance = 4; distance > 0; distance /= 2) {
        sums = sums + subgroupShuffleXor(sums, distance > apart ? distance / 2 : distance == apart ? 4 : distance);
    }
    // The parts of a run are joined last: a part with the next but one, then with its neighbour.
    precise vec2 pairs = sums.xy + sums.zw;
    precise float sum = pairs.x + pairs.y;
    return sum;
}

// Puts the sums of a row's groups into `values`, from `place` on: those of as many groups as the subgroup takes at a time, from `first` on.
void sum_groups(uint format, uint64_t row, Operand operand, uint place, uint first) {
    if (is_float(format)) {
        sum_float_groups(format, row, operand, place, first);
        return;
    }
    uint group = first + gl_SubgroupInvocationID / 8u;
    float sum = quantised_group(format, row, operand, first * 8u + gl_SubgroupInvocationID);
    if (gl_SubgroupInvocationID % 8u == 0 && group < GROUPS) values[place + group] = sum;
}
