// Products of rows of weights with f32 activations, which may be normalised as they are read.
//
// Whoever includes this has the specialisation constants COLUMNS and SOURCE.

struct Operand {
    uint64_t x;       // [COLUMNS] f32, or rounded
    uint64_t norm;    // [COLUMNS] f32, read where SOURCE is NORMALISED
    float norm_scale; // 1 / root mean square
};

// Every thread of the workgroup takes part. (RMS norm: Zhang and Sennrich, 2019.)
Operand prepare_operand(uint64_t x, uint64_t norm, float epsilon) {
    Operand operand = Operand(x, norm, 1.0);
    if (SOURCE == NORMALISED) {
        sum_squares(Vectors(x, norm, 0, 1));
        barrier();
        operand.norm_scale = norm_scale(0, epsilon);
    }
    return operand;
}

vec4 normalised(Operand operand, uint part) {
    precise vec4 v = load_vec4(operand.x, part * 16u) * operand.norm_scale;
    v = v * load_vec4(operand.norm, part * 16u);
    return v;
}
vec4 operand_floats(Operand operand, uint part) { return SOURCE == NORMALISED ? normalised(operand, part) : load_vec4(operand.x, part * 16u); }

float run_dot(uint format, uvec4 q, vec2 scale, Operand operand, uint run) {
    float sum = 0.0, total = 0.0;
    for (uint j = 0; j < 4; j++) {
        vec4 x = operand_floats(operand, run * 4u + j);
        sum += dot(signed_bytes(q[j]), x);
        total += dot(vec4(1.0), x);
    }
    if (format == MXFP4) {
        vec2 factors = power_factors(mxfp4_exponent(scale.x));
        precise float product = sum * factors.x;
        product = product * factors.y;
        return product;
    }
    return has_offset(format) ? scale.x * sum + scale.y * total : scale.x * sum;
}

// The part of the product of a whole row that falls to one of `threads` threads.
float row_dot(uint format, uint64_t row, Operand operand, uint thread, uint threads) {
    float sum = 0.0;
    if (is_float(format)) {
        // Four at a time: unrolled wholly, a wide row takes compilers of CPU drivers half a minute. The inner loop is not marked to be unrolled,
        // though drivers do so: the optimiser of SPIR-V would, and would forget `precise` in all copies but the first.
        for (uint first = 0; first < COLUMNS / 4; first += 4 * threads) {
            for (uint n = 0; n < 4; n++) {
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
