// The vectors that a workgroup's matrix products take: VECTORS of them, of COLUMNS elements, from one of three sources.
//
// Whoever includes this has the specialisation constants ACT (what products compute with), COLUMNS and SOURCE, and defines VECTORS. With
// ACT_Q14 the products take integers: from memory if they are rounded there, else from shared memory, where `stage` puts them.

const uint FLOATS = 0, NORMALISED = 1, ROUNDED = 2; // f32; f32 that are normalised first, all with the same weights; the rounded form

const uint GROUPS = (COLUMNS + 255) / 256;
const uint PLANE_RUNS = GROUPS * 16 + 1;
const uint PARTS = COLUMNS / 4;
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;

#define STAGES (ACT == ACT_Q14 ? (SOURCE == ROUNDED ? 0 : VECTORS) : 0)
shared uvec4 staged_high[STAGES * PLANE_RUNS + 1];
shared uvec4 staged_low[STAGES * PLANE_RUNS + 1];
shared ivec4 staged_sums[STAGES * GROUPS * 4 + 1]; // of the runs of each quarter
shared float staged_scales[STAGES * GROUPS + 1];
shared float square_sums[VECTORS * GROUPS];

// Of the groups of all vectors, numbered on end, subgroup s of the workgroup takes s, s + SUBGROUPS and so on, one a turn.
const uint TURNS = (VECTORS * GROUPS + SUBGROUPS - 1) / SUBGROUPS;
// What is staged in few turns is kept in registers from the first load on. Elements of many turns are loaded again where they are needed.
const bool HOLDS = ACT == ACT_Q14 ? (SOURCE == ROUNDED ? false : TURNS <= 2) : false;
const uint HELD = HOLDS ? TURNS * LANE_PARTS : 1;
vec4 held[HELD];                                 // the lane's elements
vec4 held_norm[SOURCE == NORMALISED ? HELD : 1]; // and the weights that they are normalised with

// What `stage` rounds.
struct Vectors {
    uint64_t x;    // f32
    uint64_t norm; // [COLUMNS] f32, read where SOURCE is NORMALISED
    uint stride;   // bytes from one vector to the next
    uint count;    // vectors, at most VECTORS; those behind them are neither read nor staged
};

// The lane's part n of a turn: of its elements, and of the weights that they are normalised with.
vec4 load_part(Vectors vectors, uint turn, uint n) {
    uint group = gl_SubgroupID + turn * SUBGROUPS, part = group % GROUPS * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
    vec4 v = load_vec4(vectors.x + uint64_t(min(group / GROUPS, vectors.count - 1) * vectors.stride), min(part, PARTS - 1) * 16u);
    return part < PARTS ? v : vec4(0.0);
}
vec4 load_norm_part(Vectors vectors, uint turn, uint n) {
    uint part = (gl_SubgroupID + turn * SUBGROUPS) % GROUPS * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
    return load_vec4(vectors.norm, min(part, PARTS - 1) * 16u);
}

// Loads what is kept in registers. Loads come back in the order in which they were issued, and these are needed before the weights, so this
// comes first.
void load_operand(Vectors vectors) {
    if (!HOLDS) return;
    [[unroll]] for (uint n = 0; n < HELD; n++) {
        held[n] = load_part(vectors, n / LANE_PARTS, n % LANE_PARTS);
        if (SOURCE == NORMALISED) held_norm[n] = load_norm_part(vectors, n / LANE_PARTS, n % LANE_PARTS);
    }
}

// 1 / root mean square of a vector, from the sums of squares of its groups in `square_sums`.
float norm_scale(uint vector, float epsilon) {
    precise float sum = square_sums[vector * GROUPS];
    for (uint group = 1; group < GROUPS; group++) sum = sum + square_sums[vector * GROUPS + group];
    return root_mean_scale(sum, COLUMNS, epsilon);
}

// Puts the sum of squares of the subgroup's group of a turn into `square_sums`.
void square_turn(Vectors vectors, uint turn) {
    float squares[LANE_PARTS];
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
        squares[n] = part_squares(HOLDS ? held[min(turn * LANE_PARTS + n, HELD - 1)] : load_part(vectors, turn, n));
    }
    float sum = group_sum(squares);
    uint group = gl_SubgroupID + turn * SUBGROUPS;
    if (subgroupElect() && group < vectors.count * GROUPS) square_sums[group] = sum;
}

// Puts the sums of squares of all groups into `square_sums`, for `norm_scale` behind the next barrier. Every thread takes part.
void sum_squares(Vectors vectors) {
    if (HOLDS) {
        [[unroll]] for (uint turn = 0; turn < TURNS; turn++) square_turn(vectors, turn);
    } else {
        for (uint turn = 0; turn * SUBGROUPS < vectors.count * GROUPS; turn++) square_turn(vectors, turn);
    }
}

// Normalises where SOURCE says so, rounds and stages the subgroup's group of a turn.
void stage_turn(Vectors vectors, uint turn, float epsilon) {
    uint group = gl_SubgroupID + turn * SUBGROUPS; // of all vectors
    vec4 parts[LANE_PARTS];
    float scale = SOURCE == NORMALISED ? norm_scale(min(group / GROUPS, vectors.count - 1), epsilon) : 1.0;
    [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
        precise vec4 v = HOLDS ? held[min(turn * LANE_PARTS + n, HELD - 1)] : load_part(vectors, turn, n);
        if (SOURCE == NORMALISED) {
            v = v * scale;
            v = v * (HOLDS ? held_norm[min(turn * LANE_PARTS + n, HELD - 1)] : load_norm_part(vectors, turn, n));
        }
        parts[n] = v;
    }
    if (group < vectors.count * GROUPS) {
        Rounding by = rounding(group_highest(parts));
        uint vector = group / GROUPS;
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            RoundedPart part = round_part(parts[n], by);
            uint at = group % GROUPS * 64u + n * SUBGROUP + gl_SubgroupInvocationID, run = at / 4u;
            staged_high[vector * PLANE_RUNS + place(GROUPS, run)][at % 4u] = part.high;
            staged_low[vector * PLANE_RUNS + place(GROUPS, run)][at % 4u] = part.low;
            if (at % 4u == 0u) staged_sums[vector * GROUPS * 4u + run / 4u][run % 4u] = part.sum;
        }
        if (gl_SubgroupInvocationID == 0) staged_scales[group] = by.scale;
    }
}

// Normalises where SOURCE says so, rounds, and puts the integers into shared memory. Every thread takes part. The caller's next barrier makes
// them visible.
void stage(Vectors vectors, float epsilon) {
    if (ACT != ACT_Q14 || SOURCE == ROUNDED) return;
    if (SOURCE == NORMALISED) {
        sum_squares(vectors);
        barrier();
    }
    if (HOLDS) {
        [[unroll]] for (uint turn = 0; turn < TURNS; turn++) stage_turn(vectors, turn, epsilon);
    } else {
        for (uint turn = 0; turn * SUBGROUPS < vectors.count * GROUPS; turn++) stage_turn(vectors, turn, epsilon);
    }
}

// Run `run` of a vector, its high bytes and its low ones: `x` is where the vector is, if it is rounded in memory, and `vector` its number, if not.
void load_run(uint64_t x, uint vector, uint run, out uvec4 high, out uvec4 low) {
    if (SOURCE == ROUNDED) {
        high = load_uvec4(x, place(GROUPS, run) * 16u);
        low = load_uvec4(x, low_bytes(GROUPS) + place(GROUPS, run) * 16u);
    } else {
        high = staged_high[vector * PLANE_RUNS + place(GROUPS, run)];
        low = staged_low[vector * PLANE_RUNS + place(GROUPS, run)];
    }
}
// The sums of the four runs of a quarter, in the order of the runs.
ivec4 load_sums(uint64_t x, uint vector, uint quarter) {
    if (SOURCE == ROUNDED) return ivec4(load_uvec4(x, run_sums(GROUPS) + quarter * 16u));
    return staged_sums[vector * GROUPS * 4u + quarter];
}
float load_scale(uint64_t x, uint vector, uint group) {
    if (SOURCE == ROUNDED) return load_f32(x, group_scales(GROUPS) + group * 4u);
    return staged_scales[vector * GROUPS + group];
}
