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
// units, 2012.) Sums are integers, and do not depend on an order. Of few candidates each is compared with each instead.

// Listed candidates that a lane takes at a time, 1 or 4: more are in flight, but there is more code.
layout(constant_id = 2) const uint AT_A_TIME = 4;

const uint GATHERED = 1024;
// Among so many gathered candidates each is compared with each, which takes a single pass.
const uint RANKED = 256;
const uint RANK_LANES = 4; // that share a candidate
const uint DIGIT_BITS = 8;
const uint DIGITS = 256;

// By what the candidates are ordered and weighted: by logit and as one each; by how typical they are, and softmax weight; by logit and weight.
const uint BY_COUNT = 0, BY_TYPICALITY = 1, BY_MASS = 2;

shared uint gathered_keys[GATHERED];
shared uint gathered_ids[GATHERED];
shared float gathered_scores[GATHERED];
shared uint gathered_count;
shared uint listed_counts[MAX_SHARES];

shared uint share_keys[MAX_SHARES];
shared uint found_key;

shared uint64_t ranked_keys[RANKED];
shared uint64_t ranked_weights[RANKED];
shared uint64_t ranked_last;

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

// Subgroups that look at a share each, with a lane each.
uint share_holders() { return (share_total + SUBGROUP - 1) / SUBGROUP; }

// Reads the summaries: the order key of the highest of all, 0 if there is none; the highest key below which no list is needed; the number of
// candidates; and of what is not finite. Every thread of the workgroup takes part.
uvec4 load_summaries(uint64_t shares) {
    uvec2 keys = uvec2(0);
    uvec4 counts = uvec4(0);
    for (uint share = lane_index(); share < share_total; share += workgroup_size()) {
        Share own = Share(shares + uint64_t(share * SHARE_BYTES));
        listed_counts[share] = own.listed;
        keys = max(keys, uvec2(own.highest, own.least));
        counts += uvec4(own.finite, own.non_finite, 0, 0);
    }
    workgroup_reduce(counts, keys, share_holders());
    return uvec4(keys, counts.xy);
}

// Number `rank` of the shares' highest keys, or of those that SOME of each reach, from the highest down: that number of candidates, or SOME times as
// many, reach it. A rank is at least 1 and at most the number of shares. Every thread of the workgroup takes part.
uint ranked_share(uint64_t shares, uint rank, bool of_some) {
    barrier(); // the keys before have been read
    for (uint share = lane_index(); share < share_total; share += workgroup_size()) {
        Share own = Share(shares + uint64_t(share * SHARE_BYTES));
        share_keys[share] = of_some ? own.some : own.highest;
    }
    barrier();
    for (uint share = lane_index(); share < share_total; share += workgroup_size()) {
        uint own = share_keys[share], before = 0;
        for (uint other = 0; other < share_total; other++) {
            uint key = share_keys[other];
            before += key > own || (key == own && other < share) ? 1u : 0u;
        }
        if (before == rank - 1) found_key = own;
    }
    barrier();
    return found_key;
}

// The lists as they lie, and the gathered candidates in pieces of a subgroup's width. A subgroup walks through a list, its lanes with neighbouring
// candidates: AT_A_TIME each, or one each of the gathered.
uint list_total() { return gathered ? (gathered_count + SUBGROUP - 1) / SUBGROUP : share_total; }
uint list_length(uint list) { return gathered ? min(gathered_count - list * SUBGROUP, SUBGROUP) : listed_counts[list]; }
uint lane_entries() { return gathered ? 1 : AT_A_TIME; }
#define EACH_QUAD(list, first, entry)                                                                                                  \
    for (uint list = gl_SubgroupID; list < list_total(); list += subgroups_per_workgroup())                                            \
        for (uint first = 0, length = list_length(list), entry = gl_SubgroupInvocationID * lane_entries(); first < length;             \
             first += lane_entries() * SUBGROUP, entry += lane_entries() * SUBGROUP)

// A part of a lane's entries in a list.
uvec4 load_part(uint part, uint list, uint entry) {
    uint offset = item_offset(part, share_total, list, entry);
    return AT_A_TIME == 4 ? load_uvec4(lists, offset) : uvec4(load_u32(lists, offset), 0, 0, 0);
}

// The keys of the logits of a lane's entries; 0 where there is none.
uvec4 quad_keys(uint list, uint entry, uint length) {
    uvec4 keys = uvec4(0);
    if (entry >= length) return keys;
    if (gathered) {
        keys.x = gathered_keys[list * SUBGROUP + entry];
    } else {
        vec4 logits = uintBitsToFloat(load_part(PART_LOGITS, list, entry));
        for (uint j = 0; j < AT_A_TIME; j++) {
            if (entry + j < length) keys[j] = order_key(logits[j]);
        }
    }
    return keys;
}

uint entry_id(uint list, uint entry) {
    if (gathered) return gathered_ids[list * SUBGROUP + entry];
    return load_u32(lists, item_offset(PART_IDS, share_total, list, entry));
}

// The scores of a lane's entries.
vec4 quad_scores(uint list, uint entry) {
    if (gathered) return vec4(gathered_scores[list * SUBGROUP + entry]);
    return uintBitsToFloat(load_part(PART_SCORES, list, entry));
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
        uvec4 keys = quad_keys(list, entry, length), ids = uvec4(0);
        vec4 scores = vec4(0.0);
        if (entry < length) {
            // Before it is known which are kept, so that the loads do not wait for each other.
            ids = load_part(PART_IDS, list, entry);
            scores = quad_scores(list, entry);
        }
        bvec4 kept = bvec4(false);
        for (uint j = 0; j < AT_A_TIME; j++) kept[j] = survives(keys[j], list, entry + j);
        uint own = uint(kept.x) + uint(kept.y) + uint(kept.z) + uint(kept.w);
        uint all = subgroupAdd(own);
        if (all == 0) continue;
        uint place = 0;
        if (subgroupElect()) place = atomicAdd(gathered_count, all);
        place = subgroupMax(place) + subgroupExclusiveAdd(own);
        for (uint j = 0; j < AT_A_TIME; j++) {
            if (!kept[j]) continue;
            if (place < GATHERED) {
                gathered_keys[place] = keys[j];
                gathered_ids[place] = ids[j];
                gathered_scores[place] = scores[j];
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
    uint highest;       // order keys
    uint lowest;
    uint64_t mass;      // of the weights
    uint64_t mean_high; // of the weights times the distances from `top`, in units of 2^-20, in two parts: the sum is high * 2^20 + low
    uint64_t mean_low;
};

// What order it is for says what is needed: masses, and for typicality their means. Every thread of the workgroup takes part.
Survey survey_candidates(uint order) {
    uint64_t mass = 0, high = 0, low = 0;
    uint count = 0;
    uvec2 keys = uvec2(0); // the highest, and the lowest one inverted
    EACH_QUAD(list, first, entry) {
        uvec4 quad = quad_keys(list, entry, length);
        for (uint j = 0; j < AT_A_TIME; j++) {
            if (!survives(quad[j], list, entry + j)) continue;
            count++;
            keys = max(keys, uvec2(quad[j], ~quad[j]));
            if (order == BY_COUNT) continue;
            uint64_t weight = entry_weight(quad[j]);
            mass += weight;
            if (order != BY_TYPICALITY) continue;
            uint below = fixed_below(quad[j]);
            high += (weight >> 20) * uint64_t(below);
            low += (weight & 0xfffffUL) * uint64_t(below);
        }
    }
    uvec4 masses = uvec4(in_parts(mass), count), highs = uvec4(in_parts(high), 0), lows = uvec4(in_parts(low), 0);
    if (order == BY_TYPICALITY) workgroup_reduce(masses, highs, lows, keys, list_total());
    else workgroup_reduce(masses, keys, list_total());
    return Survey(masses.w, keys.x, ~keys.y, of_parts(masses.xyz), of_parts(highs.xyz), of_parts(lows.xyz));
}

// Sorts the candidates into digits: bits `shift` and up, `bits` of them, of those whose bits above are those of `word`. Words are the high ones of
// the keys or, among keys whose high word is `high`, the inverted ids.
void count_digits(uint order, bool by_id, uint high, uint word, uint shift, uint bits) {
    EACH_QUAD(list, first, entry) {
        uvec4 keys = quad_keys(list, entry, length);
        for (uint j = 0; j < AT_A_TIME; j++) {
            if (!survives(keys[j], list, entry + j)) continue;
            uint own = order == BY_TYPICALITY ? typicality(keys[j]) : keys[j];
            if (by_id) {
                if (own != high) continue;
                own = ~entry_id(list, entry + j);
            }
            if (((own ^ word) >> shift) >> bits != 0) continue;
            uint digit = (own >> shift) & ((1u << bits) - 1u);
            uint64_t weight = order == BY_COUNT ? 1UL : entry_weight(keys[j]);
            if (weight == 0) continue; // it can never be the one at which a sum is reached
            atomicAdd(digit_counts[digit], 1u);
            if (order == BY_COUNT) continue;
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

// As `select_last`, among no more than RANKED gathered candidates: by the sum of the weights of those above each.
uint64_t select_ranked(uint order, uint64_t target) {
    barrier(); // the keys before have been read
    for (uint i = lane_index(); i < gathered_count; i += workgroup_size()) {
        uint list = i / SUBGROUP, entry = i % SUBGROUP, key = gathered_keys[i];
        bool survivor = survives(key, list, entry);
        ranked_keys[i] = survivor ? composite(order == BY_TYPICALITY ? typicality(key) : key, ~gathered_ids[i]) : 0UL;
        ranked_weights[i] = !survivor ? 0UL : order == BY_COUNT ? 1UL : entry_weight(key);
    }
    barrier();
    const uint taken = SUBGROUP / RANK_LANES; // by a subgroup at a time
    for (uint first = gl_SubgroupID * taken; first < gathered_count; first += subgroups_per_workgroup() * taken) {
        uint i = first + gl_SubgroupInvocationID / RANK_LANES;
        uint64_t own = i < gathered_count ? ranked_keys[i] : 0xffffffffffffffffUL, sum = 0;
        for (uint other = gl_SubgroupInvocationID % RANK_LANES; other < gathered_count; other += RANK_LANES) {
            if (ranked_keys[other] > own) sum += ranked_weights[other];
        }
        uvec3 parts = in_parts(sum);
        for (uint apart = 1; apart < RANK_LANES; apart *= 2) parts += subgroupShuffleXor(parts, apart);
        sum = of_parts(parts);
        if (i < gathered_count && sum < target && sum + ranked_weights[i] >= target) ranked_last = own;
    }
    barrier();
    return ranked_last;
}

// The key of the last of the fewest candidates, in falling order, whose weights sum to at least `target`, which those of all do; or a lower key
// that no further candidate has. `first` and `last` are bounds on the high words of the keys. Every thread of the workgroup takes part.
uint64_t select_last(uint order, uint64_t target, uint first, uint last) {
    if (gathered && gathered_count <= RANKED) return select_ranked(order, target);
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
