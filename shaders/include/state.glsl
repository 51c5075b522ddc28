// What varies from token to token: the state that steps hand to each other, and what a step reports to the host.
// The Rust structs of the same names are generated from these declarations.

// Tokens that one step takes at most: the last one of the sequence, and drafts of what may follow it.
const uint MAX_BATCH = 8;

// One per sequence slot, in device memory. `advance` writes it, every kernel of the next step reads it.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer StepState {
    uint live;                 // tokens that this step takes, drafts included; 0: it and all queued behind it are no-ops
    uint token;                // the first of them; drafts stand behind its position in the array of tokens
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
    uint status;            // STATUS_*
    uint position;          // where the last token reported stands
    uint finish;            // FINISH_*, 0 while the sequence goes on
    float logit;            // of the last token reported, before temperature
    uint count;             // tokens reported: 0 by a no-op, 1 by a step without drafts
    uint tokens[MAX_BATCH]; // sampled, or taken from the prompt, in order; what is behind the first `count` means nothing
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

// The token of the step's batch that a workgroup is at: the grid's z. A step without drafts has one.
uint batch_index() { return gl_WorkGroupID.z; }
// A token's copy of an activation: that of the batch's first token lies at `first`, each following one `stride` bytes behind it.
uint64_t own_copy(uint64_t first, uint stride) { return first + uint64_t(batch_index() * stride); }

// `live`, `token` and `position` for the kernels that only read them, of the workgroup's token. A kernel loads the number of tokens first and
// issues further loads before it tests it, so that they do not wait for each other; what it loads is valid memory in a step that is not live,
// too.
uint step_tokens(uint64_t state) { return load_uniform_u32(state, 0); }
bool step_is_live(uint64_t state) { return step_tokens(state) > batch_index(); }
uint step_position(uint64_t state) { return load_uniform_u32(state, 8) + batch_index(); }
// `tokens` is the sequence's array, [context + MAX_BATCH] u32.
uint step_token(uint64_t state, uint64_t tokens) {
    if (batch_index() == 0) return load_uniform_u32(state, 4);
    return load_uniform_u32(tokens, step_position(state) * 4);
}
