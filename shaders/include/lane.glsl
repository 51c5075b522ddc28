// A lane is a sequence's place on the device: how far it has come, where it ends and how it samples; and what a step reports of it to the host.
// The Rust structs of the same names are generated from these declarations.

// One per sequence, in device memory. `list`, `advance`, `cancel`, `last_rows`, `last_accepted`, `lookup` and `propose` write it.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Lane {
    uint token;                // the last token of the sequence, which the next step takes first
    uint position;             // its position; keys and values of earlier positions are valid
    uint prompt_length;        // tokens at positions below this come from the prompt
    uint budget;               // tokens that may still be sampled
    uint context_length;       // positions that the sequence may have
    uint end_token_count;      // valid entries of the list of end-of-generation ids
    uint finish;               // why the sequence stopped: FINISH_*
    uint seed_low;             // of the draws, together with `seed_high`
    uint seed_high;            // see `seed_low`
    float inverse_temperature; // 1 / temperature; 0: greedy
    uint sequence;             // the sequence's number: a cancellation carries it, so that a late one cannot stop a successor
    uint gate;                 // what the host decides about each token: GATE_*
    uint first_row;            // of the step that the lane takes part in: where its rows begin in the table
    uint rows;                 // and how many there are: 0 if the sequence had stopped before the step, or was cancelled in it
    uint64_t tokens;           // [context + MOST_RUN] u32: the prompt, then what was sampled, then drafts
    uint64_t end_tokens;       // [end_token_count] u32
    uint64_t samplers;         // SamplerParams, 0: the chain of samplers is not used
};
const uint LANE_BYTES = 80;

// The most tokens of a lane that one step samples: one more than its drafts.
const uint MOST_RUN = 16;

const uint GATE_OPEN = 0;  // nothing
const uint GATE_GUIDE = 1; // which tokens are allowed (`StepInput`)
const uint GATE_TOKEN = 2; // the token itself (a candidate)

// One for each lane and ring slot, in host-visible memory. `advance` writes it, the host reads it once the step's timeline value is reached.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer StepReport {
    uint sequence;          // the sequence's number
    uint status;            // STATUS_*
    uint position;          // where the sequence stands after the step
    uint finish;            // FINISH_*, 0 while the sequence goes on
    float logit;            // of the last token sampled, before temperature
    uint fed;               // rows behind which the prompt goes on
    uint count;             // tokens sampled: 0 by a no-op and while the prompt goes on, 1 by a step without drafts
    uint drafts;            // drafts that the step took in behind its first row, accepted or not
    uint tokens[MOST_RUN];  // sampled, in order; what is behind the first `count` means nothing
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

// What the host wants of a step, one per ring slot, in host-visible memory: which lanes take part, and which pages lanes get.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer WantedLanes {
    uint count;             // lanes of the step: at most MOST_LANES
    uint grown_count;       // pages that lanes have from this step on: at most MOST_LANES
};
const uint WANTED_OFFSET = 8;  // from its beginning to the lanes, MOST_LANES of them
const uint GROWN_OFFSET = 520; // and to the pages that lanes get

// A lane that the host wants in a step.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer WantedLane {
    uint lane; // its number
    uint rows; // that it may have, at most; it has several only where its prompt goes on
};
const uint WANTED_BYTES = 8;

// A page that a lane has from a step on.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer GrownPage {
    uint entry; // its place among the entries of the tables of all lanes
    uint page;  // its number
};
const uint GROWN_BYTES = 8;

// A lane by its number.
Lane lane_of(uint64_t state, uint lane) {
    uint64_t lanes = packUint2x32(load_uvec2(state, LANES_ADDRESS_OFFSET));
    return Lane((lanes == 0UL ? state + uint64_t(OWN_LANE_OFFSET) : lanes) + uint64_t(lane * LANE_BYTES));
}
// The lane of the workgroup's row.
Lane own_lane(uint64_t state) { return lane_of(state, row_lane(state)); }
// The token behind that of the workgroup's row, as the prompt or the step itself says it once it has ended. A row behind which none is known yet has its own
// token: the last one of a prompt that is fed, and those of drafts that were not accepted.
uint token_behind(uint64_t state) {
    Lane lane = own_lane(state);
    uint position = row_position(state);
    bool known = position < lane.position || position + 1 < lane.prompt_length;
    return known ? load_u32(lane.tokens, (position + 1) * 4) : row_token(state);
}
// The number of a lane of the step, by its place in the list.
uint listed_lane(uint64_t state, uint place) { return load_u32(state, LISTED_OFFSET + place * 4); }

// Writes row `index` of the table, whose place among the rows of its lane is `offset`.
void write_row(uint64_t state, uint index, uint offset, uint token, uint position, uint lane) {
    Row row = Row(state + uint64_t(ROWS_OFFSET + index * ROW_BYTES));
    row.offset = offset;
    row.token = token;
    row.position = position;
    row.lane = lane;
}
