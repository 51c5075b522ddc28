// The vectors that a workgroup's matrix products take: VECTORS of them, of COLUMNS elements, from one of three sources.
//
// Whoever includes this has the specialisation constants ACT (what products compute with), COLUMNS and SOURCE, and defines VECTORS. With
// ACT_Q14 the products take integers: from memory if they are rounded there, else from shared memory, where `stage` puts them.

const uint FLOATS = 0, NORMALISED = 1, ROUNDED = 2; // f32; f32 that are normalised first (one vector); the rounded form

const uint GROUPS = (COLUMNS + 255) / 256;
const uint RUNS = GROUPS * 16;
const uint PARTS = COLUMNS / 4;
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;

#define STAGES (ACT == ACT_Q14 ? (SOURCE == ROUNDED ? 0 : VECTORS) : 0)
shared uvec4 staged_high[STAGES * RUNS + 1];
shared uvec4 staged_low[STAGES * RUNS + 1];
shared ivec4 staged_sums[STAGES * GROUPS * 4 + 1]; // of the runs of each quarter
shared float staged_scales[STAGES * GROUPS + 1];
shared float square_sums[GROUPS];

// Of the groups of all vectors, numbered on end, subgroup s of the workgroup takes s, s + SUBGROUPS and so on.
const uint TURNS = (VECTORS * GROUPS + SUBGROUPS - 1) / SUBGROUPS;
const uint HELD = ACT == ACT_Q14 ? (SOURCE == ROUNDED ? 1 : TURNS * LANE_PARTS) : 1;
vec4 held[HELD];      // the lane's elements
vec4 held_norm[SOURCE == NORMALISED ? HELD : 1]; // and the weights that they are normalised with

uint held_part(uint n) { return (gl_SubgroupID + n / LANE_PARTS * SUBGROUPS) % GROUPS * 64u + n % LANE_PARTS * SUBGROUP + gl_SubgroupInvocationID; }

// Loads what `stage` rounds; vectors are `stride` bytes apart. Loads come back in the order in which they were issued, and these are needed
// before the weights, so this comes first.
void load_operand(uint64_t x, uint64_t norm, uint stride) {
    if (ACT != ACT_Q14 || SOURCE == ROUNDED) return;
    [[unroll]] for (uint n = 0; n < HELD; n++) {
        uint vector = min((gl_SubgroupID + n / LANE_PARTS * SUBGROUPS) / GROUPS, VECTORS - 1), part = held_part(n);
        bool real = part < PARTS;
        held[n] = load_vec4(x + uint64_t(vector * stride), min(part, PARTS - 1) * 16u);
        if (SOURCE == NORMALISED) held_norm[n] = load_vec4(norm, min(part, PARTS - 1) * 16u);
        if (!real) held[n] = vec4(0.0);
    }
}

// Puts the sums of squares of the groups of an f32 vector into `square_sums`, for `norm_scale` behind the next barrier. Every thread takes part.
void sum_squares(uint64_t x) {
    for (uint group = gl_SubgroupID; group < GROUPS; group += SUBGROUPS) {
        float squares[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            uint part = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
            squares[n] = part < PARTS ? part_squares(load_vec4(x, part * 16u)) : 0.0;
        }
        float sum = group_sum(squares);
        if (subgroupElect()) square_sums[group] = sum;
    }
}

// 1 / root mean square of one vector, from the sums of squares of its groups in `square_sums`.
float norm_scale(float epsilon) {
    precise float sum = square_sums[0];
    for (uint group = 1; group < GROUPS; group++) sum = sum + square_sums[group];
    precise float mean = sum * (1.0 / float(COLUMNS));
    mean = mean + epsilon;
    return 1.0 / sqrt(mean);
}

// Normalises where SOURCE says so, rounds, and puts the integers into shared memory. Every thread takes part. The caller's next barrier makes
// them visible.
void stage(float epsilon) {
    if (ACT != ACT_Q14 || SOURCE == ROUNDED) return;
    float scale = 1.0;
    if (SOURCE == NORMALISED) {
        [[unroll]] for (uint turn = 0; turn < TURNS; turn++) {
            float squares[LANE_PARTS];
            [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) squares[n] = part_squares(held[turn * LANE_PARTS + n]);
            float sum = group_sum(squares);
            uint group = gl_SubgroupID + turn * SUBGROUPS;
            if (subgroupElect() && group < GROUPS) square_sums[group] = sum;
        }
        barrier();
        scale = norm_scale(epsilon);
    }
    [[unroll]] for (uint turn = 0; turn < TURNS; turn++) {
        uint group = gl_SubgroupID + turn * SUBGROUPS; // of all vectors
        vec4 parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            precise vec4 v = held[turn * LANE_PARTS + n];
            if (SOURCE == NORMALISED) {
                v = v * scale;
                v = v * held_norm[turn * LANE_PARTS + n];
            }
            parts[n] = v;
        }
        if (group < VECTORS * GROUPS) {
            Rounding by = rounding(group_highest(parts));
            uint first_run = group / GROUPS * RUNS;
            [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
                RoundedPart part = round_part(parts[n], by);
                uint at = group % GROUPS * 64u + n * SUBGROUP + gl_SubgroupInvocationID, run = at / 4u;
                staged_high[first_run + place(GROUPS, run)][at % 4u] = part.high;
                staged_low[first_run + place(GROUPS, run)][at % 4u] = part.low;
                if (at % 4u == 0u) staged_sums[first_run / 4u + run / 4u][run % 4u] = part.sum;
            }
            if (gl_SubgroupInvocationID == 0) staged_scales[group] = by.scale;
        }
    }
}

// Run `run` of a vector: its high bytes and its low ones.
void load_run(uint64_t x, uint vector, uint run, out uvec4 high, out uvec4 low) {
    if (SOURCE == ROUNDED) {
        x += uint64_t(vector * rounded_bytes(GROUPS));
        high = load_uvec4(x, place(GROUPS, run) * 16u);
        low = load_uvec4(x, low_bytes(GROUPS) + place(GROUPS, run) * 16u);
    } else {
        high = staged_high[vector * RUNS + place(GROUPS, run)];
        low = staged_low[vector * RUNS + place(GROUPS, run)];
    }
}
// The sums of the four runs of a quarter, in the order of the runs.
ivec4 load_sums(uint64_t x, uint vector, uint quarter) {
    if (SOURCE == ROUNDED) return ivec4(load_uvec4(x, vector * rounded_bytes(GROUPS) + run_sums(GROUPS) + quarter * 16u));
    return staged_sums[vector * GROUPS * 4u + quarter];
}
float load_scale(uint64_t x, uint vector, uint group) {
    if (SOURCE == ROUNDED) return load_f32(x, vector * rounded_bytes(GROUPS) + group_scales(GROUPS) + group * 4u);
    return staged_scales[vector * GROUPS + group];
}
