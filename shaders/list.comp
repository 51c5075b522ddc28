// The first kernel of a step: lists the lanes that the host wants in it, and their rows, and enters the pages that lanes get with it. One workgroup.
//
// A lane that has ended has no rows, and one that the host has cancelled ends here. A lane whose prompt goes on has as many rows as the host wants of it and its
// prompt has tokens left, and every other lane has one. The rows of a lane stand together, and those of the lanes in the order of the list.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t wanted;    // WantedLanes of this ring slot, the lanes, and the pages that they get
    uint64_t cancelled; // [lanes] u32, host-visible: for each lane the sequence that the host wants stopped
    uint64_t leader;    // Lane: once its sequence has ended, no lane has rows; 0: none
} push;

shared uint counts[MOST_LANES]; // rows of each lane of the list

WantedLane wanted_lane(uint place) { return WantedLane(push.wanted + uint64_t(WANTED_OFFSET + place * WANTED_BYTES)); }

void main() {
    WantedLanes wanted = WantedLanes(push.wanted);
    uint listed = min(wanted.count, MOST_LANES);
    for (uint n = thread_index(); n < min(wanted.grown_count, MOST_LANES); n += workgroup_size()) {
        GrownPage grown = GrownPage(push.wanted + uint64_t(GROWN_OFFSET + n * GROWN_BYTES));
        store_u32(push.state, PAGES_OFFSET + grown.entry * 4, grown.page);
    }
    bool led = push.leader == 0UL || Lane(push.leader).finish == FINISH_NONE;
    for (uint place = thread_index(); place < listed; place += workgroup_size()) {
        uint number = wanted_lane(place).lane, most = clamp(wanted_lane(place).rows, 1, MOST_ROWS);
        Lane lane = lane_of(push.state, number);
        bool live = lane.finish == FINISH_NONE;
        if (live && load_u32(push.cancelled, number * 4) == lane.sequence) {
            lane.finish = FINISH_CANCELLED;
            live = false;
        }
        uint position = lane.position;
        uint rows = position < lane.prompt_length ? min(lane.prompt_length - position, most) : 1;
        counts[place] = live && led ? rows : 0;
        store_u32(push.state, LISTED_OFFSET + place * 4, number);
    }
    barrier();

    uint first = 0; // row of the lane at a place
    for (uint place = 0; place < listed; place++) {
        uint rows = min(counts[place], MOST_ROWS - first);
        // Each lane's first row is written by a thread of its own, and those behind it, which only lanes have whose prompts go on, by all threads.
        if (thread_index() == place % workgroup_size()) {
            uint number = wanted_lane(place).lane;
            Lane lane = lane_of(push.state, number);
            lane.first_row = first;
            lane.rows = rows;
            if (rows != 0) write_row(push.state, first, 0, lane.token, lane.position, number);
        }
        if (rows > 1) {
            uint number = wanted_lane(place).lane;
            Lane lane = lane_of(push.state, number);
            for (uint row = 1 + thread_index(); row < rows; row += workgroup_size()) {
                uint position = lane.position + row;
                write_row(push.state, first + row, row, load_u32(lane.tokens, position * 4), position, number);
            }
        }
        first += rows;
    }
    if (thread_index() != 0) return;
    store_u32(push.state, 0, first);
    store_u32(push.state, LANE_COUNT_OFFSET, listed);
}
