// Candidates that are still in the running, and the selection among them without sorting.
//
// A candidate's place is a key of 64 bits: the order key of its logit, then the inverted id, so that of equal logits the lower id comes first.
// What earlier stages have left is described by bounds on places. The candidates lie in the lists of the shares; once no more than GATHERED
// are left, they are gathered in shared memory, where each further pass is short.
//
// Selection: of the candidates in falling order of a key, the fewest whose weights sum to at least a target. It finds the key of the last of them
// by radix, eight bits a pass: a histogram of the keys' next digits, by weight, says in which digit the target is reached. The first digit begins
// at the highest bit in which keys differ, and the search ends as soon as the target is reached exactly at the end of a digit, or by its
// only candidate; two or three passes are common. (Alabi, Blelloch, Gordon, Steinbach: Fast k-selection algorithms for graphics processing
// units, 2012.) Sums are integers, and do not depend on an order.

const uint GATHERED = 1024;
const uint DIGIT_BITS = 8;
const uint DIGITS = 256;

// By what the candidates are ordered and weighted: by logit and as one each; by how typical they are, and softmax weight; by logit and weight.
const uint BY_COUNT = 0, BY_TYPICALITY = 1, BY_MASS = 2;

shared uint gathered_keys[GATHERED];
shared uint gathered_ids[GATHERED];
shared uint gathered_entries[GATHERED]; // where in the lists
shared uint gathered_count;
shared uint listed_counts[MAX_SHARES];

shared uint digit_counts[DIGITS];
shared uint digit_low[DIGITS]; // sums of weights
shared uint digit_high[DIGITS];
shared uint64_t subgroup_sums[DIGITS / 8];
shared uint found_digit;
shared uint64_t found_sum; // before it
shared bool found_end;     // whether the search ends with it

uint64_t lists;         // the workgroup's copy of the lists
uint share_total;       // shares of the vocabulary
bool gathered = false;  // the candidates lie in shared memory
bool narrowed = true;   // the bounds have changed since it was tried to gather them
uint64_t lowest = 0;    // bounds on places
uint64_t highest = 0xffffffffffffffffUL;
float top;              // the highest logit of all: weights are relative to it
uint typical_mean;      // what the information content is compared with, in units of 2^-20 below that of `top`
uint64_t least_typical = 0; // bound on the key of typicality

uint64_t composite(uint high, uint low) { return uint64_t(high) << 32 | uint64_t(low); }

// Reads the summaries: the order key of the highest of all, 0 if there is none; the highest key below which no list is needed; the number of
// candidates; and of what is not finite. Every thread of the workgroup takes part.
uvec4 load_summaries(uint64_t shares) {
    uvec2 keys = uvec2(0);
    uvec4 counts = uvec4(0);
    for (uint share = thread_index(); share < share_total; share += workgroup_size()) {
        Share own = Share(shares + uint64_t(share * SHARE_BYTES));
        listed_counts[share] = own.listed;
        keys = max(keys, uvec2(own.highest, own.least));
        counts += uvec4(own.finite, own.non_finite, 0, 0);
    }
    return uvec4(workgroup_max(keys), workgroup_sum(counts).xy);
}

// The lists as they lie, and the gathered candidates in pieces of a subgroup's width.
uint list_total() { return gathered ? (gathered_count + 4 * SUBGROUP - 1) / (4 * SUBGROUP) : share_total; }
uint list_length(uint list) { return gathered ? min(gathered_count - list * 4 * SUBGROUP, 4 * SUBGROUP) : listed_counts[list]; }
// A subgroup walks through a list by quads, a quad a lane: `entry` is that of the lane's first candidate.
#define EACH_QUAD(list, first, entry)                                                                                                  \
    for (uint list = gl_SubgroupID; list < list_total(); list += subgroups_per_workgroup())                                            \
        for (uint first = 0, length = list_length(list), entry = gl_SubgroupInvocationID * 4; first < length;                          \
             first += 4 * SUBGROUP, entry += 4 * SUBGROUP)

// The keys of the logits of four entries; 0 where there is none.
uvec4 quad_keys(uint list, uint entry, uint length) {
    uvec4 keys = uvec4(0);
    if (gathered) {
        for (uint j = 0; j < 4; j++) {
            if (entry + j < length) keys[j] = gathered_keys[list * 4 * SUBGROUP + entry + j];
        }
    } else if (entry < length) {
        vec4 logits = load_vec4(lists, item_offset(PART_LOGITS, share_total, list, entry));
        for (uint j = 0; j < 4; j++) {
            if (entry + j < length) keys[j] = order_key(logits[j]);
        }
    }
    return keys;
}

uint entry_id(uint list, uint entry) {
    if (gathered) return gathered_ids[list * 4 * SUBGROUP + entry];
    return load_u32(lists, item_offset(PART_IDS, share_total, list, entry));
}

uint64_t entry_weight(uint key) {
    precise float below = order_value(key) - top;
    return softmax_weight(below);
}

// How far a logit is below `top`, in units of 2^-20.
uint fixed_below(uint key) {
    precise float below = top - order_value(key);
    return uint(min(below, 2047.0) * 1048576.0);
}

// The distance of the information content from the entropy, so that the nearest have the highest key.
uint typicality(uint key) {
    uint below = fixed_below(key);
    return ~(max(below, typical_mean) - min(below, typical_mean));
}

// Whether a candidate is still in the running. Ids are looked up only where the rest of the place does not decide.
bool survives(uint key, uint list, uint entry) {
    if (key == 0 || key < uint(lowest >> 32) || key > uint(highest >> 32)) return false;
    if (key == uint(lowest >> 32) && ~entry_id(list, entry) < uint(lowest)) return false;
    if (key == uint(highest >> 32) && ~entry_id(list, entry) > uint(highest)) return false;
    if (least_typical != 0) {
        uint near = typicality(key);
        if (near < uint(least_typical >> 32)) return false;
        if (near == uint(least_typical >> 32) && ~entry_id(list, entry) < uint(least_typical)) return false;
    }
    return true;
}

// Gathers the candidates, if there is room for them. Every thread of the workgroup takes part.
void gather_candidates() {
    if (gathered || !narrowed) return;
    narrowed = false;
    barrier();
    if (thread_index() == 0) gathered_count = 0;
    barrier();
    EACH_QUAD(list, first, entry) {
        uvec4 keys = quad_keys(list, entry, length);
        bvec4 kept;
        for (uint j = 0; j < 4; j++) kept[j] = survives(keys[j], list, entry + j);
        uint own = uint(kept.x) + uint(kept.y) + uint(kept.z) + uint(kept.w);
        uint all = subgroupAdd(own);
        if (all == 0) continue;
        uint place = 0;
        if (subgroupElect()) place = atomicAdd(gathered_count, all);
        place = subgroupMax(place) + subgroupExclusiveAdd(own);
        for (uint j = 0; j < 4; j++) {
            if (!kept[j]) continue;
            if (place < GATHERED) {
                gathered_keys[place] = keys[j];
                gathered_ids[place] = entry_id(list, entry + j);
                gathered_entries[place] = list * SHARE_IDS + entry + j;
            }
            place++;
        }
    }
    barrier();
    gathered = gathered_count <= GATHERED;
}

// What the candidates have in common.
struct Survey {
    uint count;
    uint highest; // order keys
    uint lowest;
    uint64_t mass;
};

Survey survey_candidates() {
    uint64_t mass = 0;
    uint count = 0;
    uvec2 keys = uvec2(0); // the highest, and the lowest one inverted
    EACH_QUAD(list, first, entry) {
        uvec4 quad = quad_keys(list, entry, length);
        for (uint j = 0; j < 4; j++) {
            if (!survives(quad[j], list, entry + j)) continue;
            count++;
            keys = max(keys, uvec2(quad[j], ~quad[j]));
            mass += entry_weight(quad[j]);
        }
    }
    uvec4 sums = workgroup_sum(uvec4(in_parts(mass), count));
    keys = workgroup_max(keys);
    return Survey(sums.w, keys.x, ~keys.y, of_parts(sums.xyz));
}

// Sorts the candidates into digits: bits `shift` and up, `bits` of them, of those whose bits above are those of `word`. Words are the high ones of
// the keys or, among keys whose high word is `high`, the inverted ids.
void count_digits(uint order, bool by_id, uint high, uint word, uint shift, uint bits) {
    EACH_QUAD(list, first, entry) {
        uvec4 keys = quad_keys(list, entry, length);
        for (uint j = 0; j < 4; j++) {
            if (!survives(keys[j], list, entry + j)) continue;
            uint own = order == BY_TYPICALITY ? typicality(keys[j]) : keys[j];
            if (by_id) {
                if (own != high) continue;
                own = ~entry_id(list, entry + j);
            }
            if (((own ^ word) >> shift) >> bits != 0) continue;
            uint digit = (own >> shift) & ((1u << bits) - 1u);
            atomicAdd(digit_counts[digit], 1u);
            if (order == BY_COUNT) continue;
            uint64_t weight = entry_weight(keys[j]);
            uint added = uint(weight), before = atomicAdd(digit_low[digit], added);
            uint carried = uint(weight >> 32) + (before + added < before ? 1u : 0u);
            if (carried != 0) atomicAdd(digit_high[digit], carried);
        }
    }
}

// In which digit, from the highest down, the sum reaches the target, if it is `above` before the highest. Digits are 0 again afterwards.
void find_digit(uint order, uint64_t target, uint64_t above) {
    uint digit = DIGITS - 1 - lane_index();
    bool is_digit = lane_index() < DIGITS;
    uint members = 0;
    uint64_t weight = 0;
    if (is_digit) {
        members = digit_counts[digit];
        weight = order == BY_COUNT ? uint64_t(members) : composite(digit_high[digit], digit_low[digit]);
        digit_counts[digit] = 0;
        digit_low[digit] = 0;
        digit_high[digit] = 0;
    }
    uint64_t sum = of_parts(subgroupInclusiveAdd(in_parts(weight)));
    if (is_digit && gl_SubgroupInvocationID == SUBGROUP - 1) subgroup_sums[gl_SubgroupID] = sum;
    barrier();
    if (is_digit) {
        sum += above;
        for (uint i = 0; i < gl_SubgroupID; i++) sum += subgroup_sums[i];
        if (sum >= target && sum - weight < target) {
            found_digit = digit;
            found_sum = sum - weight;
            found_end = members == 1 || sum == target;
        }
    }
    barrier();
}

// The key of the last of the fewest candidates, in falling order, whose weights sum to at least `target`, which those of all do; or a lower key
// that no further candidate has. `first` and `last` are bounds on the high words of the keys. Every thread of the workgroup takes part.
uint64_t select_last(uint order, uint64_t target, uint first, uint last) {
    uint word = first, high = 0;
    uint open = findMSB(first ^ last) + 1; // low bits of the word that are not known yet
    bool by_id = false;
    uint64_t above = 0; // the sum of the weights of those that are above all keys which begin like this one
    if (lane_index() < DIGITS) {
        digit_counts[lane_index()] = 0;
        digit_low[lane_index()] = 0;
        digit_high[lane_index()] = 0;
    }
    while (true) {
        if (open == 0) {
            if (by_id) break;
            by_id = true;
            high = word;
            word = 0xffffffffu;
            open = findMSB(share_total * SHARE_IDS - 1) + 1;
        }
        uint bits = min(open, DIGIT_BITS), shift = open - bits;
        barrier(); // digits are 0
        count_digits(order, by_id, high, word, shift, bits);
        barrier();
        find_digit(order, target, above);
        uint known = open < 32 ? word >> open << open : 0;
        word = known | found_digit << shift;
        above = found_sum;
        open = shift;
        if (found_end) break;
    }
    return by_id ? composite(high, word) : composite(word, 0);
}
