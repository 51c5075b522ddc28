// data[i] = data[i] * MUL + push.add, for i below push.count. Affine steps do not commute, so their order shows.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 32;
layout(constant_id = 1) const uint MUL = 1;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(push_constant, scalar) uniform Push { uint64_t data; uint count; uint add; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        Words words = Words(push.data);
        words.v[i] = words.v[i] * MUL + push.add;
    }
}
