// Ends sequences between two submissions of a step, where the host has cancelled them: their lanes have no rows from here on, neither in what is left of the step
// nor in the steps queued behind it. Where lanes of others go on, the table of rows stays as it is, and what is computed of a cancelled lane's rows counts for
// nothing; once no lane has rows, the table is emptied, so that the rest of the step becomes a no-op. One subgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_vote : require
#include "include/memory.glsl"
#include "include/rows.glsl"
#include "include/lane.glsl"
#include "include/workgroup.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t cancelled; // [lanes] u32, host-visible: for each lane the sequence that the host wants stopped
} push;

void main() {
    if (load_u32(push.state, 0) == 0) return;
    uint listed = load_u32(push.state, LANE_COUNT_OFFSET);
    bool goes_on = false;
    for (uint first = 0; first < listed; first += workgroup_size()) {
        uint place = first + thread_index();
        if (place < listed) {
            uint number = listed_lane(push.state, place);
            Lane lane = lane_of(push.state, number);
            bool has_rows = lane.rows != 0;
            if (has_rows && load_u32(push.cancelled, number * 4) == lane.sequence) {
                lane.finish = FINISH_CANCELLED;
                lane.rows = 0;
                has_rows = false;
            }
            goes_on = goes_on || has_rows;
        }
    }
    if (!subgroupAny(goes_on) && thread_index() == 0) store_u32(push.state, 0, 0);
}
