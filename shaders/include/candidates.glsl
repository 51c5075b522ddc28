// The running maximum of sampling, by score and then by id, so that the result does not depend on how the vocabulary is shared out.
struct Candidate {
    float score;
    float logit;
    uint id;         // NO_ID: none yet
    uint non_finite; // logits seen that are NaN or +infinity
};
const uint NO_ID = 0xffffffffu;
const uint CANDIDATE_BYTES = 16;

shared Candidate candidate_shares[1024];

Candidate no_candidate() { return Candidate(0.0, 0.0, NO_ID, 0); }

Candidate better(Candidate a, Candidate b) {
    uint a_key = order_key(a.score), b_key = order_key(b.score);
    bool take_b = b.id != NO_ID && (a.id == NO_ID || b_key > a_key || (b_key == a_key && b.id < a.id));
    Candidate best = a;
    if (take_b) best = b;
    best.non_finite = a.non_finite + b.non_finite;
    return best;
}

// The best of a workgroup of any size up to 1,024. Thread 0 gets it.
Candidate workgroup_best(Candidate own) {
    uint thread = thread_index();
    candidate_shares[thread] = own;
    for (uint width = workgroup_size(); width > 1;) {
        uint half_width = (width + 1) / 2;
        barrier();
        if (thread + half_width < width) {
            candidate_shares[thread] = better(candidate_shares[thread], candidate_shares[thread + half_width]);
        }
        width = half_width;
    }
    return candidate_shares[thread];
}

void store_candidate(uint64_t candidates, uint index, Candidate c) {
    store_f32(candidates, index * CANDIDATE_BYTES, c.score);
    store_f32(candidates, index * CANDIDATE_BYTES + 4, c.logit);
    store_u32(candidates, index * CANDIDATE_BYTES + 8, c.id);
    store_u32(candidates, index * CANDIDATE_BYTES + 12, c.non_finite);
}
Candidate load_candidate(uint64_t candidates, uint index) {
    return Candidate(
        load_f32(candidates, index * CANDIDATE_BYTES), load_f32(candidates, index * CANDIDATE_BYTES + 4),
        load_u32(candidates, index * CANDIDATE_BYTES + 8), load_u32(candidates, index * CANDIDATE_BYTES + 12));
}
