// What the kernels of the sampler chain (`dry`, `adjust`, `choose`) are told and what they hand to each other.
//
// The chain's order and the meaning of its parameters are llama.cpp's: logit bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p,
// XTC, temperature, draw. All of it is integers, and float additions and multiplications that may not be contracted, so that the host chooses
// the same token from the same logits (`reference::choose`).

// One per sequence, in device memory: written by the host before the sequence starts (`sampler::SamplerTables`).
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer SamplerParams {
    uint64_t biases;         // [bias_count] Bias
    uint64_t dry_penalties;  // [dry_penalty_count] f32
    uint64_t breakers;       // [vocabulary] u8 in whole words: flags
    uint64_t tails;          // [tail_count, TAIL_WORDS] u32: head, length, tokens
    uint64_t counts;         // [vocabulary] u32: occurrences in the window that ends with the lane's position, or with the first of its rows in a step
    uint bias_count;         // entries of the list of biases
    uint penalty_window;     // tokens of the history that the penalties count in, 0: no penalties
    float repeat;            // what logits of such tokens are multiplied with if they are negative
    float inverse_repeat;    // and if they are positive
    float frequency;         // subtracted for each occurrence
    float presence;          // subtracted once
    uint dry_window;         // tokens of the history that DRY looks at, 0: no DRY
    uint dry_allowed_length; // shorter repetitions are free
    uint dry_penalty_count;  // entries of the table of DRY's penalties, at least 1; longer repetitions cost what the last entry says
    uint tail_count;         // sequence breakers of several tokens
    uint sigma_squared;      // top-n-sigma: the square of n in units of 2^-16, SIGMA_OFF: off
    uint top_k;              // 0: all
    uint typical;            // a probability in units of 2^-24, as the following ones; PROBABILITY_ONE: off
    uint top_p;              // PROBABILITY_ONE: off
    float log_min_p;         // natural logarithm, minus infinity: off
    uint xtc_probability;    // 0: off
    uint xtc_threshold;
};
const uint PROBABILITY_ONE = 0x1000000;
const uint SIGMA_OFF = 0xffffffff;

// What is added to the logit of a token. Lists of these are sorted by id, and no id is in a list twice.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Bias {
    uint id;
    float bias;
};

// A sequence breaker of several tokens: its first token, the number of those that follow it, and those.
const uint MAX_TAIL = 20;
const uint TAIL_WORDS = 22;
// Flags of a token, a byte each: whether it breaks sequences alone, whether breakers of several tokens begin with it.
const uint BREAKS_ALONE = 1;
const uint BEGINS_BREAKER = 2;

// What top-n-sigma needs to know of the candidates of a share.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Moments {
    uint64_t sum;     // of their logits in units of 2^-10, in two's complement
    uint64_t squares; // of the squares of the same
};
const uint MOMENTS_BYTES = 16;

// What the host may say of one step, in host-visible memory, with what follows the struct: MAX_STEP_BIASES places for biases, then a bit for each
// token of the vocabulary, lowest bits of the words first, 1: allowed. For lanes of one row.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer StepInput {
    uint has_mask;   // 0: all tokens are allowed
    uint bias_count; // valid entries of the step's biases
};
const uint MAX_STEP_BIASES = 1024;
const uint STEP_INPUT_BYTES = 8;
const uint BIAS_BYTES = 8;
