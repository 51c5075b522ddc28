// Reads memory and does nothing else: what a device reaches with it is what the other kernels are held against.
// The workgroups take tiles in turn. A thread has all its loads of a tile in flight, 16 bytes each, beside those of its neighbours.
// What is read is combined by exclusive or: every word counts, in any order.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/workgroup.glsl"

const uint LOADS = 8; // of a thread in a tile

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t x;  // [tiles, LOADS, workgroup size, 4] u32
    uint64_t y;  // [workgroups] u32
    uint tiles;
} push;

const uint TILE_BYTES = LOADS * gl_WorkGroupSize.x * 16;
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;

shared uint shares[SUBGROUPS];

void main() {
    if (!row_is_live(push.state)) return;
    uvec4 combined = uvec4(0);
    for (uint tile = gl_WorkGroupID.x; tile < push.tiles; tile += gl_NumWorkGroups.x) {
        uint64_t base = push.x + uint64_t(tile) * uint64_t(TILE_BYTES);
        uvec4 loaded[LOADS];
        [[unroll]] for (uint n = 0; n < LOADS; n++) {
            loaded[n] = load_uvec4(base, (n * workgroup_size() + thread_index()) * 16);
        }
        [[unroll]] for (uint n = 0; n < LOADS; n++) combined ^= loaded[n];
    }
    uint share = subgroupXor(combined.x ^ combined.y ^ combined.z ^ combined.w);
    if (subgroupElect()) shares[gl_SubgroupID] = share;
    barrier();
    if (thread_index() != 0) return;
    uint word = 0;
    for (uint s = 0; s < SUBGROUPS; s++) word ^= shares[s];
    store_u32(push.y, gl_WorkGroupID.x * 4, word);
}
