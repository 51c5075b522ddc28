// The rows of a step. A row is one token at one position, which the step takes through the layers; a step has a table of its rows.
// The Rust structs of the same names are generated from these declarations.
//
// The step's state (`StepState` in Rust) is a head, a lane of its own (lane.glsl), the list of the step's lanes, and the table of rows, which is much the
// longest part: what a step of few rows needs is a prefix. The head is the number of rows and that of lanes, 32 bits each; and the address of the lanes that
// several states share, which is 0 in a state whose own lane is its only one. In a model of several lanes the tables of their pages follow behind the state, by
// the numbers of the lanes (cache_rows.glsl). `list` writes the numbers of rows and lanes, the list and the table of rows when a step begins, and into the tables
// of pages those that lanes have from this step on. A dispatch has workgroups for as many rows as its step has room for, which may be more than the table lists.

// The most rows of a step, and of a step that samples behind each of them.
const uint MOST_ROWS = 2048;
const uint MOST_SAMPLING_ROWS = 64;

// The most lanes of a step.
const uint MOST_LANES = 64;

// One row of the table. `list`, `last_rows`, `lookup` and `propose` write rows, every other kernel reads them.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Row {
    uint offset;   // of its position from that of the lane's first row in the step: 0 for the last token of a sequence, 1 and up for drafts and for what follows in a prompt
    uint token;    // what is evaluated
    uint position; // in its sequence; keys and values of earlier positions are valid or are those of earlier rows of the step
    uint lane;     // the number of the lane whose row it is
};
const uint ROW_BYTES = 16;
// From the beginning of the state to its parts, in bytes.
const uint LANE_COUNT_OFFSET = 4;
const uint LANES_ADDRESS_OFFSET = 8;
const uint OWN_LANE_OFFSET = 32;
const uint LISTED_OFFSET = 112;
const uint ROWS_OFFSET = 368;
const uint PAGES_OFFSET = 33136; // tables of pages, u32 each, behind the rows

// The number of the row that a workgroup is at: the grid's z, unless who includes this defines ROW_INDEX.
#ifndef ROW_INDEX
#define ROW_INDEX gl_WorkGroupID.z
#endif
uint row_index() { return ROW_INDEX; }
// A row's part of an operand: that of the first row lies at `first`, each following one `stride` bytes behind it.
uint64_t of_row(uint64_t first, uint stride) { return first + uint64_t(row_index() * stride); }

// Rows that the table lists. 0: the sequences of all lanes of the step have ended, and what is left of the step changes nothing.
uint row_count(uint64_t state) { return load_uniform_u32(state, 0); }
// Whether the workgroup's row is listed. A kernel loads the number of rows first and issues further loads before it tests it, so that they do not
// wait for each other. What it loads is valid memory in every step.
bool row_is_live(uint64_t state) { return row_count(state) > row_index(); }

// The entries of the workgroup's row.
uint row_offset(uint64_t state) { return load_uniform_u32(state, ROWS_OFFSET + row_index() * ROW_BYTES); }
uint row_token(uint64_t state) { return load_uniform_u32(state, ROWS_OFFSET + row_index() * ROW_BYTES + 4); }
uint row_position(uint64_t state) { return load_uniform_u32(state, ROWS_OFFSET + row_index() * ROW_BYTES + 8); }
uint row_lane(uint64_t state) { return load_uniform_u32(state, ROWS_OFFSET + row_index() * ROW_BYTES + 12); }
