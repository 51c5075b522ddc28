// A lane is a sequence's place in a step: how far it has come, where it ends and how it samples; and what a step reports of it to the host.
// The Rust structs of the same names are generated from these declarations.

// One per lane of the step's state, in device memory. `advance`, `cancel` and `last_row` write it.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Lane {
    uint token;                // the last token of the sequence, which the next step takes first
    uint position;             // its position; keys and values of earlier positions are valid
    uint prompt_length;        // tokens at positions below this come from the prompt
    uint budget;               // tokens that may still be sampled
    uint context_length;       // positions that the KV cache holds
    uint end_token_count;      // valid entries of the list of end-of-generation ids
    uint finish;               // why the sequence stopped: FINISH_*
    uint seed_low;             // of the draws, together with `seed_high`
    uint seed_high;            // see `seed_low`
    float inverse_temperature; // 1 / temperature; 0: greedy
    uint sequence;             // the sequence's number: a cancellation carries it, so that a late one cannot stop a successor
};
const uint LANE_BYTES = 44;

// One per ring slot, in host-visible memory. `advance` writes it, the host reads it once the step's timeline value is reached.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer StepReport {
    uint sequence;          // the sequence's number
    uint status;            // STATUS_*
    uint position;          // where the sequence stands after the step
    uint finish;            // FINISH_*, 0 while the sequence goes on
    float logit;            // of the last token sampled, before temperature
    uint fed;               // rows behind which the prompt goes on
    uint count;             // tokens sampled: 0 by a no-op and while the prompt goes on, 1 by a step without drafts
    uint tokens[MOST_SAMPLING_ROWS]; // sampled, in order; what is behind the first `count` means nothing
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

// A lane of the step's state.
Lane lane_of(uint64_t state, uint lane) { return Lane(state + uint64_t(LANES_OFFSET + lane * LANE_BYTES)); }
// The lane of the workgroup's row.
Lane own_lane(uint64_t state) { return lane_of(state, row_lane(state)); }

// How many tokens of a sequence the next step may take at once: what is left of the prompt, at most MOST_ROWS, else the last one alone. The Rust twin
// is `step::next_rows`.
uint next_rows(uint position, uint prompt_length) {
    return position < prompt_length ? min(prompt_length - position, MOST_ROWS) : 1;
}

// Writes a row of lane 0, the only one.
void write_row(uint64_t state, uint offset, uint token, uint position) {
    Row row = Row(state + uint64_t(ROWS_OFFSET + offset * ROW_BYTES));
    row.offset = offset;
    row.token = token;
    row.position = position;
    row.lane = 0;
}
