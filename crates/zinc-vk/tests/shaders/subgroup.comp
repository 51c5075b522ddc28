// out[0] = subgroup size, out[1] = subgroups of the workgroup, out[2] = sum over a subgroup of lane + 1,
// out[3] = how many workgroups ran.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 32;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(push_constant, scalar) uniform Push { uint64_t data; } push;

void main() {
    Words words = Words(push.data);
    uint sum = subgroupAdd(gl_SubgroupInvocationID + 1);
    if (gl_LocalInvocationIndex == 0) {
        atomicAdd(words.v[3], 1);
        if (gl_WorkGroupID.x == 0) {
            words.v[0] = gl_SubgroupSize;
            words.v[1] = gl_NumSubgroups;
            words.v[2] = sum;
        }
    }
}
