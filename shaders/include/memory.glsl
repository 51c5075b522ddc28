// Memory access by device address.
//
// Every access names a 64-bit base and a zero-extended 32-bit byte offset. Drivers turn that form into loads with a scalar base
// and a 32-bit vector offset, which costs less than descriptors and less than indexing a typed reference. A tensor of more than
// 4 GiB advances its base in scalar code (per row or per expert) and keeps the offset small.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

#include "include/subgroup.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16Ref { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32Ref { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32Ref { float v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer UVec2Ref { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer UVec4Ref { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec4Ref { vec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U64Ref { uint64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer U64Vec2Ref { u64vec2 v; };

// Bytes up to the next multiple of 16, where wide loads begin.
uint pad16(uint bytes) { return (bytes + 15u) & ~15u; }

uint load_u16(uint64_t base, uint offset) { return uint(U16Ref(base + uint64_t(offset)).v); }
uint load_u32(uint64_t base, uint offset) { return U32Ref(base + uint64_t(offset)).v; }
float load_f32(uint64_t base, uint offset) { return F32Ref(base + uint64_t(offset)).v; }

// Wide loads. Where subgroups have 8 lanes, which is what drivers on a CPU have, a load takes numbers of 64 bits: such a driver loads each number of each lane by
// itself, whatever its size up to that.
const bool LOADS_64_BITS = SUBGROUP == 8;
uvec2 load_uvec2(uint64_t base, uint offset) {
    uvec2 words;
    if (LOADS_64_BITS) words = unpack32(U64Ref(base + uint64_t(offset)).v);
    else words = UVec2Ref(base + uint64_t(offset)).v;
    return words;
}
uvec4 load_uvec4(uint64_t base, uint offset) {
    uvec4 words;
    if (LOADS_64_BITS) {
        u64vec2 pairs = U64Vec2Ref(base + uint64_t(offset)).v;
        words = uvec4(unpack32(pairs.x), unpack32(pairs.y));
    } else {
        words = UVec4Ref(base + uint64_t(offset)).v;
    }
    return words;
}
vec4 load_vec4(uint64_t base, uint offset) {
    vec4 words;
    if (LOADS_64_BITS) words = uintBitsToFloat(load_uvec4(base, offset));
    else words = Vec4Ref(base + uint64_t(offset)).v;
    return words;
}

void store_u16(uint64_t base, uint offset, uint value) { U16Ref(base + uint64_t(offset)).v = uint16_t(value); }
void store_u32(uint64_t base, uint offset, uint value) { U32Ref(base + uint64_t(offset)).v = value; }
void store_f32(uint64_t base, uint offset, float value) { F32Ref(base + uint64_t(offset)).v = value; }
void store_vec4(uint64_t base, uint offset, vec4 value) { Vec4Ref(base + uint64_t(offset)).v = value; }
void store_uvec2(uint64_t base, uint offset, uvec2 value) { UVec2Ref(base + uint64_t(offset)).v = value; }

// What no workgroup of the dispatch writes, read where the address is the same for all lanes: drivers may use scalar loads.
layout(buffer_reference, scalar, buffer_reference_align = 4) restrict readonly buffer UniformU32Ref { uint v; };
uint load_uniform_u32(uint64_t base, uint offset) { return UniformU32Ref(base + uint64_t(offset)).v; }
float load_uniform_f32(uint64_t base, uint offset) { return uintBitsToFloat(load_uniform_u32(base, offset)); }

// What workgroups of one dispatch pass to each other: past the caches that belong to one compute unit.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer SharedU32Ref { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer SharedVec4Ref { vec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer SharedFloatsRef { float of[]; };

void store_shared_vec4(uint64_t base, uint offset, vec4 value) { SharedVec4Ref(base + uint64_t(offset)).v = value; }
