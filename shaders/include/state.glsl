// What varies from token to token: the state that steps hand to each other, and what a step reports to the host.
// The Rust structs of the same names are generated from these declarations.

// One per sequence slot, in device memory. `advance` writes it, every kernel of the next step reads it.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer StepState {
    uint live;                 // 0: this step and all queued behind it are no-ops
    uint token;                // the token whose embedding this step reads
    uint position;             // its position; KV entries below it are valid
    uint prompt_length;        // tokens at positions below this come from the prompt
    uint budget;               // tokens that may still be sampled
    uint context_length;       // positions the KV cache holds
    uint end_token_count;      // valid entries of the end-of-generation list
    uint finish;               // why the sequence stopped: FINISH_*
    uint seed_low;
    uint seed_high;
    float inverse_temperature; // 0: greedy
    uint sequence;             // names the sequence: a cancellation carries it, so that a late one cannot stop a successor
};

// One per ring slot, in host-visible memory. `advance` writes it, the host reads it once the step's timeline value is reached.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer StepReport {
    uint sequence;
    uint status;   // STATUS_*
    uint token;    // sampled, or taken from the prompt
    uint position; // where `token` stands
    uint finish;   // FINISH_*, 0 while the sequence goes on
    float logit;   // of the sampled token, before temperature
};

const uint STATUS_NO_OP = 0;   // the sequence had stopped before this step
const uint STATUS_FED = 1;     // the next token comes from the prompt
const uint STATUS_SAMPLED = 2; // the next token was sampled

const uint FINISH_NONE = 0;
const uint FINISH_END_OF_GENERATION = 1;
const uint FINISH_BUDGET = 2;
const uint FINISH_CONTEXT_FULL = 3;
const uint FINISH_CANCELLED = 4;
const uint FINISH_NON_FINITE = 5;

// `live`, `token` and `position` for the kernels that only read them. A kernel loads the flag first and issues further loads before it
// tests it, so that they do not wait for each other; what it loads is valid memory in a step that is not live, too.
bool step_is_live(uint64_t state) { return load_uniform_u32(state, 0) != 0; }
uint step_token(uint64_t state) { return load_uniform_u32(state, 4); }
uint step_position(uint64_t state) { return load_uniform_u32(state, 8); }
