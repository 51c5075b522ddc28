// One share of the vocabulary: its values, its summary and its list (see shares.glsl). The Rust twin is `reference::shares`.
// Whoever includes this defines SCORED, whether the list has scores, and with it `quad_scores`. The workgroup has at least 256 threads.

const uint QUADS = SHARE_IDS / 4;
const uint STEPS = 256;
// What stands for no candidate, minus infinity, and for a logit that is not finite.
#define NO_VALUE uintBitsToFloat(0xff800000u)
#define BROKEN uintBitsToFloat(0x7fc00000u)

shared vec4 values[QUADS]; // of four neighbouring ids each
shared uint steps[STEPS];  // candidates by how far they are below the highest
shared uint last_steps[2]; // that of the k-th candidate, and that of number SOME

#ifdef SCORED
// The scores of a quad whose first id is given.
vec4 quad_scores(uint id, vec4 logits);
#endif

// Subnormal numbers as zero, which some devices do not tell apart, and so the negative zero.
float flushed(float value) { return (floatBitsToUint(value) & 0x7f800000u) == 0u ? 0.0 : value; }

// Four neighbouring words of an array of `count`; 0 beyond its end.
uvec4 load_quad(uint64_t base, uint index, uint count) {
    if (index + 4 <= count) return load_uvec4(base, index * 4);
    uvec4 words = uvec4(0);
    for (uint j = 0; j < 4 && index + j < count; j++) words[j] = load_u32(base, (index + j) * 4);
    return words;
}

// The logits of the share whose first id is given become its values.
void load_values(uint64_t logits, uint first, uint vocabulary) {
    for (uint quad = lane_index(); quad < QUADS; quad += workgroup_size()) {
        uint id = first + quad * 4;
        uvec4 words = load_quad(logits, id, vocabulary);
        vec4 value;
        for (uint j = 0; j < 4; j++) value[j] = id + j < vocabulary ? flushed(uintBitsToFloat(words[j])) : NO_VALUE;
        values[quad] = value;
    }
}

bool is_candidate(float value) { return floatBitsToUint(value) != 0xff800000u && !is_broken(value); }

// How far below the highest logit of its share a logit lies, in 256 steps: 16 to a factor of two, from 2^-8 to 2^8.
uint step_below(float highest, float logit) {
    precise float below = highest - logit;
    return min(max(floatBitsToUint(below) >> 19, 1904u) - 1904u, STEPS - 1u);
}

// The steps at which the share has so many candidates; the last one where it has fewer.
uvec2 steps_of(float highest, uvec2 limits) {
    for (uint i = lane_index(); i < STEPS; i += workgroup_size()) steps[i] = 0;
    if (lane_index() < 2) last_steps[lane_index()] = STEPS - 1;
    barrier();
    for (uint quad = lane_index(); quad < QUADS; quad += workgroup_size()) {
        for (uint j = 0; j < 4; j++) {
            float value = values[quad][j];
            if (is_candidate(value)) atomicAdd(steps[step_below(highest, value)], 1u);
        }
    }
    barrier();
    uint own = lane_index() < STEPS ? steps[lane_index()] : 0, total;
    uint before = workgroup_sum_before(own, total);
    for (uint n = 0; n < 2; n++) {
        if (before < limits[n] && before + own >= limits[n]) last_steps[n] = lane_index();
    }
    barrier();
    return uvec2(last_steps[0], last_steps[1]);
}

// Writes summary and list of share number `share` of `shares`, from `values`. With a limit other than 0 the list is cut at the step at which it
// has so many. Returns the order key of the highest candidate, 0 if there is none. Every thread of the workgroup takes part.
uint list_share(uint share, uint shares, uint limit, uint64_t summaries, uint64_t items) {
    barrier(); // the values are there
    uvec2 keys = uvec2(0);   // the highest
    uvec4 counts = uvec4(0); // candidates, and what is not finite
    for (uint quad = lane_index(); quad < QUADS; quad += workgroup_size()) {
        for (uint j = 0; j < 4; j++) {
            float value = values[quad][j];
            if (is_candidate(value)) {
                keys.x = max(keys.x, order_key(value));
                counts.x++;
            } else if (is_broken(value)) {
                counts.y++;
            }
        }
    }
    workgroup_reduce(counts, keys, subgroups_per_workgroup());
    uint highest = keys.x, finite = counts.x;
    float highest_value = order_value(highest);
    bool cut = limit != 0 && limit < finite;
    uvec2 last = steps_of(highest_value, uvec2(cut ? limit : 0xffffffffu, SOME));

    uint listed = 0;
    uvec2 least = uvec2(0); // keys of the least that is listed, and of the least of SOME: inverted, so that it is the highest
    for (uint first = 0; first < QUADS; first += workgroup_size()) {
        uint quad = first + lane_index();
        vec4 value = vec4(NO_VALUE);
        if (quad < QUADS) value = values[quad];
        bvec4 kept;
        for (uint j = 0; j < 4; j++) {
            uint step = step_below(highest_value, value[j]);
            kept[j] = is_candidate(value[j]) && step <= last.x;
            if (kept[j]) least = max(least, uvec2(1, step <= last.y ? 1 : 0) * ~order_key(value[j]));
        }
        uint own = uint(kept.x) + uint(kept.y) + uint(kept.z) + uint(kept.w), total;
        uint entry = listed + workgroup_sum_before(own, total);
        listed += total;
        if (own == 0) continue;
        uint id = share * SHARE_IDS + quad * 4;
#ifdef SCORED
        vec4 scores = quad_scores(id, value);
#endif
        for (uint j = 0; j < 4; j++) {
            if (!kept[j]) continue;
            store_f32(items, item_offset(PART_LOGITS, shares, share, entry), value[j]);
            store_u32(items, item_offset(PART_IDS, shares, share, entry), id + j);
#ifdef SCORED
            store_f32(items, item_offset(PART_SCORES, shares, share, entry), scores[j]);
#endif
            entry++;
        }
    }
    least = workgroup_max(least, subgroups_per_workgroup());
    if (thread_index() != 0) return highest;
    Share summary = Share(summaries + uint64_t(share * SHARE_BYTES));
    summary.finite = finite;
    summary.non_finite = counts.y;
    summary.highest = highest;
    summary.some = listed >= SOME ? ~least.y : 0;
    summary.least = limit != 0 && listed >= limit ? ~least.x : 0;
    summary.listed = listed;
    return highest;
}
