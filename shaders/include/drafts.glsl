// Drafts of what may follow the last token of a sequence: further rows of its step.

// Whether the token behind the last one comes from the prompt. Then there are no drafts, and the rows of the step are the prompt's.
bool prompt_goes_on(Lane lane) { return lane.position + 1 < lane.prompt_length; }

// How many drafts the step may take: at most `drafts`, and no more than the budget and the context leave room for beside the step's first
// row. The Rust twin is `reference::most_drafts`.
uint most_drafts(Lane lane, uint drafts) {
    if (prompt_goes_on(lane)) return 0;
    uint room = min(lane.budget, lane.context_length - lane.position);
    return min(drafts, max(room, 1) - 1);
}

// Makes the `count` tokens behind the sequence's last one rows of the step, of which the lane, whose number is `number`, is the only one. Every thread takes
// part.
void set_drafts(uint64_t state, Lane lane, uint number, uint count) {
    uint position = lane.position;
    for (uint own = 1 + thread_index(); own <= count; own += workgroup_size()) {
        write_row(state, own, own, load_u32(lane.tokens, (position + own) * 4), position + own, number);
    }
    barrier(); // every thread has read what the state held before
    if (thread_index() != 0 || prompt_goes_on(lane)) return;
    lane.rows = 1 + count;
    store_u32(state, 0, 1 + count);
}
