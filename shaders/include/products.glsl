// Dot products of chunks of weights with activations, and the normalisation of a matrix product's operand.
//
// Whoever includes this has the specialisation constants ACT (the form of the activations) and COLUMNS (their number). The operand is
// either ready in memory in that form, or it is the f32 residual stream that the kernel normalises itself (NORM): then quantised runs
// are staged in shared memory, while f32 elements are scaled as they are read.
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// OpSDotKHR on words of four signed bytes.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot4(int a, int b, spirv_literal int packed_4x8);

const uint RUNS = COLUMNS / RUN;
// Whether a lane has one of `count` items, where the subgroup's begin at `first`: known at compile time but for the last of them.
bool inside(uint first, uint count) { return first + SUBGROUP <= count || first + gl_SubgroupInvocationID < count; }
const uint STAGED_RUNS = ACT != ACT_F32 && NORM == 1 ? RUNS : 1;
const uint STAGED_LOW_RUNS = ACT == ACT_Q16 && NORM == 1 ? RUNS : 1;
shared uvec4 staged_high[STAGED_RUNS];
shared uvec4 staged_low[STAGED_LOW_RUNS];
shared vec2 staged_scale[STAGED_RUNS];

struct Operand {
    uint64_t x;       // [COLUMNS] in form ACT, or f32 where NORM is 1
    uint64_t norm;    // [COLUMNS] f32, read where NORM is 1
    float norm_scale; // 1 / root mean square
};

vec4 normalised(Operand operand, uint part) {
    return load_vec4(operand.x, part * 16u) * operand.norm_scale * load_vec4(operand.norm, part * 16u);
}

const uint OPERAND_PARTS = COLUMNS / 4;
const uint OWN_OPERAND_PARTS = (OPERAND_PARTS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x; // of a thread

const uint HELD = NORM == 1 && ACT != ACT_F32 ? OWN_OPERAND_PARTS : 1;
vec4 operand_x[HELD], operand_norm[HELD];

// Before the weights: loads come back in the order in which they were issued, and this is needed first.
void load_operand(uint64_t x, uint64_t norm) {
    if (NORM == 0 || ACT == ACT_F32) return;
    [[unroll]] for (uint n = 0; n < OWN_OPERAND_PARTS; n++) {
        uint part = min(lane_index() + n * gl_WorkGroupSize.x, OPERAND_PARTS - 1);
        operand_x[n] = load_vec4(x, part * 16u);
        operand_norm[n] = load_vec4(norm, part * 16u);
    }
}

// Every thread of the workgroup takes part. (RMS norm: Zhang and Sennrich, 2019.)
Operand prepare_operand(uint64_t x, uint64_t norm, float epsilon) {
    Operand operand = Operand(x, norm, 1.0);
    if (NORM == 1 && ACT != ACT_F32) {
        float squares = 0.0;
        [[unroll]] for (uint n = 0; n < OWN_OPERAND_PARTS; n++) {
            bool own = lane_index() + n * gl_WorkGroupSize.x < OPERAND_PARTS;
            squares += own ? dot(operand_x[n], operand_x[n]) : 0.0;
        }
        operand.norm_scale = 1.0 / sqrt(workgroup_sum(squares) / float(COLUMNS) + epsilon);
        [[unroll]] for (uint n = 0; n < OWN_OPERAND_PARTS; n++) {
            uint part = lane_index() + n * gl_WorkGroupSize.x;
            QuantisedPart quantised = quantise(ACT, operand_x[n] * operand.norm_scale * operand_norm[n]);
            if (part < OPERAND_PARTS) {
                staged_high[part / 4u][part % 4u] = quantised.high;
                if (ACT == ACT_Q16) staged_low[part / 4u][part % 4u] = quantised.low;
                if (part % 4u == 0u) staged_scale[part / 4u] = quantised.scale;
            }
        }
        barrier();
    } else if (NORM == 1) {
        float squares = 0.0;
        for (uint part = thread_index(); part < COLUMNS / 4; part += gl_WorkGroupSize.x) {
            vec4 v = load_vec4(x, part * 16u);
            squares += dot(v, v);
        }
        operand.norm_scale = 1.0 / sqrt(workgroup_sum(squares) / float(COLUMNS) + epsilon);
    }
    return operand;
}

QuantisedRun operand_run(Operand operand, uint run) {
    if (NORM == 0) return load_act_run(ACT, operand.x, COLUMNS, run);
    return QuantisedRun(staged_high[run], ACT == ACT_Q16 ? staged_low[run] : uvec4(0), staged_scale[run]);
}
vec4 operand_floats(Operand operand, uint part) { return NORM == 1 ? normalised(operand, part) : load_vec4(operand.x, part * 16u); }

// The quantised activations that a chunk meets.
struct ChunkInput {
    QuantisedRun a;
    QuantisedRun b;
};
ChunkInput chunk_input(Operand operand, uint format, uint chunk) {
    uvec2 runs = chunk_runs(format, chunk);
    return ChunkInput(operand_run(operand, runs.x), operand_run(operand, runs.y));
}

int dot16(uvec4 a, uvec4 b) {
    return dot4(int(a.x), int(b.x), 0) + dot4(int(a.y), int(b.y), 0) + dot4(int(a.z), int(b.z), 0) + dot4(int(a.w), int(b.w), 0);
}
// At most 16 * 128 * 32,512 in magnitude.
float integer_dot(uvec4 w, QuantisedRun x) {
    int high = dot16(w, x.high);
    return float(ACT == ACT_Q16 ? high * 256 + dot16(w, x.low) : high);
}
float quantised_dot(uint format, Chunk w, ChunkInput x) {
    float sum = w.a_scale.x * x.a.scale.x * integer_dot(w.a, x.a) + w.b_scale.x * x.b.scale.x * integer_dot(w.b, x.b);
    if (has_offset(format)) sum += w.a_scale.y * x.a.scale.y + w.b_scale.y * x.b.scale.y;
    return sum;
}
float run_dot(uint format, uvec4 q, vec2 scale, Operand operand, uint run) {
    float sum = 0.0, total = 0.0;
    for (uint j = 0; j < 4; j++) {
        vec4 x = operand_floats(operand, run * 4u + j);
        sum += dot(signed_bytes(q[j]), x);
        total += dot(vec4(1.0), x);
    }
    return has_offset(format) ? scale.x * sum + scale.y * total : scale.x * sum;
}

// The part of the product of a whole row with f32 activations that falls to one of `threads` threads.
float row_dot(uint format, uint64_t row, Operand operand, uint thread, uint threads) {
    float sum = 0.0;
    if (is_float(format)) {
        // Four at a time: unrolled wholly, a wide row takes compilers of CPU drivers half a minute.
        for (uint first = 0; first < COLUMNS / 4; first += 4 * threads) {
            [[unroll]] for (uint n = 0; n < 4; n++) {
                uint part = first + n * threads + thread;
                if (part < COLUMNS / 4) sum += dot(load_floats(format, row, part), operand_floats(operand, part));
            }
        }
        return sum;
    }
    for (uint chunk = thread; chunk < COLUMNS / 32; chunk += threads) {
        Chunk w = unpack(format, load_raw(format, row, COLUMNS, chunk), chunk);
        uvec2 runs = chunk_runs(format, chunk);
        sum += run_dot(format, w.a, w.a_scale, operand, runs.x) + run_dot(format, w.b, w.b_scale, operand, runs.y);
    }
    return sum;
}
