// The last workgroup of several to finish its part goes on with what needs all parts. No workgroup waits for another.
//
// Parts are stored with the `shared` stores of memory.glsl, and may be loaded with ordinary loads afterwards: the barriers order them, and no
// cache of the last workgroup's has an older copy, since it has not read them before. (The `shared` loads would wait for each other.) Parts that are
// counts, to which several workgroups add, are added to by atomic operations, and loaded by `shared` loads. The
// counter starts at 0 and is 0 again afterwards.
//
// Whoever includes this may define ARRIVED_BEFORE: a word of shared memory that no thread uses any more when the workgroup calls `last_to_arrive`.
#ifndef ARRIVED_BEFORE
shared uvec4 arrived_before; // of which one is used: what drivers lay out behind it stays aligned to 16 bytes
#define ARRIVED_BEFORE arrived_before.x
#endif

// Whether the caller's workgroup is the last of `expected`. Every thread of the workgroup calls it and gets the same answer.
bool last_to_arrive(uint64_t counter, uint expected) {
    // The workgroup's parts reach thread 0, and with its count the others.
    groupMemoryBarrier();
    barrier();
    if (thread_index() == 0) {
        memoryBarrierBuffer();
        ARRIVED_BEFORE = atomicAdd(SharedU32Ref(counter).v, 1u);
        if (ARRIVED_BEFORE == expected - 1u) SharedU32Ref(counter).v = 0u;
    }
    barrier();
    bool last = ARRIVED_BEFORE == expected - 1u;
    if (last) memoryBarrierBuffer();
    return last;
}
