// The recurrent state of a gated delta net: what a lane keeps of a layer from one step to the next.
//
// Rows of a step are sure if their token belongs to the sequence whatever is sampled: the lane's first row, and those of its prompt. Drafts are not:
// which of them belong to it, the position of the lane's next step tells. So the state takes in the sure rows of a step, and what drafts would add to
// it is kept as pending: the next step takes in those that were accepted, before its own rows. Nothing is ever taken back.
//
// The parts of the state of a lane, in order:
//   memories  [VALUE_HEADS, HEAD_SIZE values, HEAD_SIZE keys] f32: a column of a head's matrix is what it keeps for one element of values
//   committed [VALUE_HEADS, HEAD_SIZE values] u32: the positions that the column has taken in, from the beginning of the sequence on
//   pending   [PENDING_SLOTS] of PENDING_BYTES: of a draft, the CHANNELS behind the convolution, then beta and alpha of each value head; by position
//   columns   [COLUMN_SLOTS, CHANNELS] f32: what the convolution takes, of the last positions; by position
// Positions go round in the slots. The pending rows that a step reads, at most DRAFTS before its position, lie in other slots than those that it writes, at
// most DRAFTS behind it: workgroups do not wait for each other.
//
// Whoever includes this has the specialisation constants KEY_HEADS, VALUE_HEADS, HEAD_SIZE and DRAFTS, the most drafts of a step.

const uint TAPS = 4; // positions that the convolution takes, the present one included

const uint CHANNELS = (2 * KEY_HEADS + VALUE_HEADS) * HEAD_SIZE; // of the convolution: those of queries, of keys and of values
const uint VALUE_COLUMNS = VALUE_HEADS * HEAD_SIZE;
const uint PENDING_SLOTS = DRAFTS == 0 ? 0 : 2 * DRAFTS + 1;
const uint PENDING_BYTES = (CHANNELS * 4 + VALUE_HEADS * 8 + 15) / 16 * 16;
const uint COLUMN_SLOTS = TAPS - 1 + DRAFTS;
const uint COMMITTED_OFFSET = VALUE_COLUMNS * HEAD_SIZE * 4;
const uint PENDING_OFFSET = COMMITTED_OFFSET + VALUE_COLUMNS * 4;
const uint COLUMNS_OFFSET = PENDING_OFFSET + PENDING_SLOTS * PENDING_BYTES;

// The state of a lane, of those that lie `stride` bytes apart from `recurrent` on.
uint64_t recurrent_state(uint64_t recurrent, uint stride, uint lane) { return recurrent + uint64_t(lane) * uint64_t(stride); }
// How many of the lane's `rows` rows in the step, from `position` on, are sure: the others are drafts.
uint sure_rows(Lane lane, uint position, uint rows) { return clamp(max(lane.prompt_length, position) - position, 1, rows); }
