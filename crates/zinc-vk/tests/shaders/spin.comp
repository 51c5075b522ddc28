// A step that takes a while: push.rounds rounds of a recurrence that cannot be folded, added to data[0].
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 32) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(push_constant, scalar) uniform Push { uint64_t data; uint rounds; } push;

void main() {
    Words words = Words(push.data);
    uint x = words.v[1] + gl_LocalInvocationIndex;
    for (uint i = 0; i < push.rounds; i++) {
        x = x * 1664525u + 1013904223u;
        x ^= x >> 13;
    }
    if (gl_LocalInvocationIndex == 0) {
        words.v[1] = x;
        words.v[0] += 1;
    }
}
