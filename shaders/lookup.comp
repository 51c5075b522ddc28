// Drafts without a model: what followed when the last tokens of the sequence stood in it before.
//
// Of all earlier places whose last tokens are the sequence's last ones, MIN_NGRAM of them or more, one with the most in common is taken, up to
// MAX_NGRAM, and of several the latest. The tokens that stand behind it are drafts: further rows of the step. One workgroup.
// (Saxena: Prompt Lookup Decoding, 2023.)
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"
#include "include/drafts.glsl"

const uint AHEAD = 8; // places that a thread loads before it looks at the first

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint min_ngram;     // tokens in common that a place must have, at least 1
    uint max_ngram;     // beyond which it makes no difference
    uint drafts;        // at most so many, less than MOST_RUN
} push;

shared uint longest; // tokens in common
shared uint latest;  // place of the longest: the position of the last token in common, plus 1

void main() {
    if (load_u32(push.state, 0) == 0) return;
    uint number = listed_lane(push.state, 0);
    Lane lane = lane_of(push.state, number);
    uint64_t tokens = lane.tokens; // valid up to the lane's position; drafts go behind it
    if (thread_index() == 0) {
        longest = 0;
        latest = 0;
    }
    barrier();

    // A thread's best place, places being looked at from the latest on.
    uint position = lane.position, last = load_u32(tokens, position * 4);
    uint own_length = 0, own_place = 0;
    for (uint behind = thread_index(); behind < position; behind += AHEAD * workgroup_size()) {
        uint ahead[AHEAD];
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            uint back = min(behind + n * workgroup_size(), position - 1);
            ahead[n] = load_u32(tokens, (position - 1 - back) * 4);
        }
        [[unroll]] for (uint n = 0; n < AHEAD; n++) {
            uint back = behind + n * workgroup_size();
            if (back < position && ahead[n] == last) {
                uint place = position - 1 - back, length = 1;
                while (length < push.max_ngram && length <= place
                       && load_u32(tokens, (place - length) * 4) == load_u32(tokens, (position - length) * 4)) {
                    length++;
                }
                if (length > own_length) {
                    own_length = length;
                    own_place = place + 1;
                }
            }
        }
    }
    if (own_length >= push.min_ngram) atomicMax(longest, own_length);
    barrier();
    if (own_length != 0 && own_length == longest) atomicMax(latest, own_place);
    barrier();

    // A thread writes the token that it makes a row of afterwards.
    uint count = latest == 0 ? 0 : min(most_drafts(lane, push.drafts), position + 1 - latest);
    if (thread_index() < count) {
        store_u32(tokens, (position + 1 + thread_index()) * 4, load_u32(tokens, (latest + thread_index()) * 4));
    }
    set_drafts(push.state, lane, number, count);
}
