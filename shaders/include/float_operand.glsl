// f32 activations of a row as products and `round` take them: normalised as they are read, where SOURCE says so.
//
// Whoever includes this has `operand.glsl`.

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
