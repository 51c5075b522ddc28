// Indices and reductions of a workgroup, for any subgroup width.
//
// Constant 0 is the workgroup size (`gl_WorkGroupSize.x`) and constant 1 the subgroup width in every kernel: the host derives its
// grid from the same two numbers that the kernel was specialised with, so that the two cannot disagree.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "include/subgroup.glsl"

layout(local_size_x_id = 0) in;

// Workgroups are numbered through x and y: a grid above the device's limit in x wraps into y.
uint flat_workgroup() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint thread_index() { return gl_LocalInvocationIndex; }
// As `thread_index`, with the lanes of a subgroup in a row: for work that neighbours share by shuffles.
uint lane_index() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }
uint workgroup_size() { return gl_WorkGroupSize.x; }
uint subgroups_per_workgroup() { return gl_WorkGroupSize.x / SUBGROUP; }
// The subgroup's number in the whole grid.
uint flat_subgroup() { return flat_workgroup() * subgroups_per_workgroup() + gl_SubgroupID; }
