// The last workgroup of several to finish its part goes on with what needs all parts. No workgroup waits for another.
//
// Parts are stored with the `shared` stores of memory.glsl, and may be loaded with ordinary loads afterwards: the barriers order them, and no
// cache of the last workgroup's has an older copy, since it has not read them before. (The `shared` loads would wait for each other.) The
// counter starts at 0 and is 0 again afterwards.
shared uint arrived_before;

// Whether the caller's workgroup is the last of `expected`. Every thread of the workgroup calls it and gets the same answer. Thread 0's part
// alone is passed on; `every_thread_has_a_part` says that the others' are, too.
bool last_to_arrive(uint64_t counter, uint expected, bool every_thread_has_a_part) {
    if (every_thread_has_a_part) {
        memoryBarrierBuffer(); // this thread's part, before the count
        barrier();
    }
    if (thread_index() == 0) {
        memoryBarrierBuffer();
        arrived_before = atomicAdd(SharedU32Ref(counter).v, 1u);
        if (arrived_before == expected - 1u) SharedU32Ref(counter).v = 0u;
    }
    barrier();
    memoryBarrierBuffer();
    return arrived_before == expected - 1u;
}
