// The input of a block for multi-token prediction: the embedding of the token behind each row, and the row's hidden vector, which is the residual stream
// as a head takes it, both normalised. One workgroup normalises the embedding where it is, another puts the hidden vector behind it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"
#include "include/half.glsl"
#include "include/formats.glsl"

layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const float EPSILON = 0.0; // of all norms
#include "include/activations.glsl"
#define ACT ACT_F32
#define SOURCE NORMALISED
#define VECTORS 2 // the hidden vector is normalised twice, which takes two sums of squares
#include "include/operand.glsl"
#include "include/float_operand.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;              // [2, COLUMNS] f32: the embedding, and room for the hidden vector
    uint64_t residual;       // [COLUMNS] f32
    uint64_t embedding_norm; // [COLUMNS] f32
    uint64_t head_norm;      // [COLUMNS] f32: what a head normalises the residual stream with
    uint64_t hidden_norm;    // [COLUMNS] f32
    uint x_stride;           // bytes from one row of the step to the next, as the stride below
    uint residual_stride;
} push;

void main() {
    if (!row_is_live(push.state)) return;
    uint64_t x = of_row(push.x, push.x_stride);
    if (gl_WorkGroupID.x == 0) {
        // Each thread stores what it has loaded itself.
        Operand embedding = prepare_operand(x, push.embedding_norm, EPSILON);
        for (uint part = thread_index(); part < PARTS; part += workgroup_size()) store_vec4(x, part * 16u, normalised(embedding, part));
        return;
    }
    Operand hidden = prepare_operand(of_row(push.residual, push.residual_stride), push.head_norm, EPSILON);
    for (uint group = gl_SubgroupID; group < GROUPS; group += SUBGROUPS) {
        float squares[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) {
            uint part = group * 64u + n * SUBGROUP + gl_SubgroupInvocationID;
            squares[n] = part < PARTS ? part_squares(normalised(hidden, part)) : 0.0;
        }
        float sum = group_sum(squares);
        if (subgroupElect()) square_sums[GROUPS + group] = sum;
    }
    barrier();
    float scale = norm_scale(1, EPSILON);
    for (uint part = thread_index(); part < PARTS; part += workgroup_size()) {
        precise vec4 v = normalised(hidden, part) * scale;
        v = v * load_vec4(push.hidden_norm, part * 16u);
        store_vec4(x, (PARTS + part) * 16u, v);
    }
}
