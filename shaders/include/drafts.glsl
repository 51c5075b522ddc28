// How many drafts a step may take. The Rust twin is `reference::most_drafts`.

// At most `drafts`, no more than the budget and the context leave room for beside the step's first token, and none while the prompt goes on.
uint most_drafts(StepState state, uint drafts) {
    if (state.position + 1 < state.prompt_length) return 0;
    uint room = min(state.budget, state.context_length - state.position);
    return min(drafts, max(room, 1) - 1);
}
