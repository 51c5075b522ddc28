// Attention of some query heads of one row over a share of its context, by one subgroup: what the kernels `attention` and `attention_rows` have in
// common. Both do the same operations in the same order, none contracted but where `fma` says so, so that a row has the same bits in both.
//
// HEADS query heads that share a key and value head are taken together, so that each cached key and value is read once for all of them. ROW_LANES lanes
// share a position, with a part of the head each: of the queries and of the weighted values, which stay in registers. A share is a number of
// tiles of TILE positions, and takes them in order. Then the shares of the subgroups of a workgroup are joined to a split of the context, and at last the
// splits.
// (Online softmax: Milakov and Gimelshein, 2018; split over the context: Dao et al., Flash-Decoding, 2023.)
//
// A turn is a tile for each share of a split. Turns go to the splits one after the other, with a window from the turn on that has the first attended key. Tiles
// before that of this key are left out, so that a share may be without a tile.
//
// Whoever includes this has `cache_rows.glsl`, `splits.glsl`, `window.glsl` and the specialisation constants HEADS, KEY_FORMAT and VALUE_FORMAT, and defines
// SETS, how many rows a workgroup has at a time; SHARES, how many shares a split has; and PLACES, for how many shares or splits of a row there is room.

const uint PARTS = HEAD_SIZE / 4;                                // of a head, four elements each
const uint EIGHTS = HEAD_SIZE / 8;                               // of a head, eight elements each
const uint ROW_LANES = HEAD_SIZE > 128 && SUBGROUP > 8 ? 16 : 8; // lanes that share a position
const uint OWN_EIGHTS = (EIGHTS + ROW_LANES - 1) / ROW_LANES;    // of a row a lane's
const uint ROWS = SUBGROUP / ROW_LANES;                          // positions of a subgroup at a time
const uint STEPS = 2;                                            // of which a tile consists, loaded together
const uint TILE = ROWS * STEPS;                                  // positions of a subgroup between two looks at the maximum
const uint KEY_WORDS = KEY_FORMAT == CACHE_F16 ? 1 : 2;          // of 16 bytes in eight elements
const uint VALUE_WORDS = VALUE_FORMAT == CACHE_F16 ? 1 : 2;
const uint MAX_SPLITS = 64;                                      // of a context; more than a split has shares
#define MINUS_INFINITY uintBitsToFloat(0xff800000u)

shared vec4 query[SETS * HEADS * PARTS];
shared vec4 joined[SETS * SHARES * HEADS * PARTS]; // [set, share, head, part]: weighted values of a workgroup's shares
shared float maxima[SETS * PLACES * HEADS];        // [set, share, head], of a split's shares and in the end of all splits
shared float sums[SETS * PLACES * HEADS];
shared float keeps[SETS * PLACES * HEADS];         // what is left of a share beside the highest maximum
shared float totals[SETS * HEADS];                 // [set, head]: the sum of a split

// Half h of eight elements, given the one or two words that hold them.
vec4 cache_half(uint format, uvec4 first, uvec4 second, uint h) {
    if (format == CACHE_F32) return uintBitsToFloat(h == 0 ? first : second);
    return h == 0 ? vec4(half_pair(first.x), half_pair(first.y)) : vec4(half_pair(first.z), half_pair(first.w));
}

// sum + a . b, one product after the other.
float add_dot(float sum, vec4 a, vec4 b) {
    precise float total = fma(a.x, b.x, sum);
    total = fma(a.y, b.y, total);
    total = fma(a.z, b.z, total);
    total = fma(a.w, b.w, total);
    return total;
}
// sum + a * scale.
vec4 add_scaled(vec4 sum, vec4 a, float scale) {
    precise vec4 total = fma(a, vec4(scale), sum);
    return total;
}

// What is left of a share whose maximum is `own` beside one whose maximum is `highest`. Nothing of an empty one.
float kept(float own, float highest) {
    precise float below = own - highest;
    return own == MINUS_INFINITY ? 0.0 : exp(below);
}

// The same beside the highest of the shares of a split. Only with a window a share may be without a tile, and so without a maximum.
float share_kept(float own, float highest) {
    if (WINDOW != 0) return kept(own, highest);
    precise float below = own - highest;
    return exp(below);
}

// The lane's part of the share that its subgroup works on.
uvec4 key[STEPS * OWN_EIGHTS * KEY_WORDS], value[STEPS * OWN_EIGHTS * VALUE_WORDS]; // a tile
vec4 own_query[HEADS * OWN_EIGHTS * 2], values[HEADS * OWN_EIGHTS * 2];
float maximum[HEADS], sum[HEADS];
// Once the lanes are joined: how many parts the lane has, the first of them, and whether it has any.
uint kept_parts, first_part;
bool keeper;

// The part of a head that is the lane's part i.
uint part_of_head(uint i) { return (gl_SubgroupInvocationID % ROW_LANES + i / 2 * ROW_LANES) * 2 + i % 2; }

// Loads the lane's parts of the queries, which begin at place `first` of `query`.
void load_query(uint first) {
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
            uint part = part_of_head(i);
            own_query[h * OWN_EIGHTS * 2 + i] = part < PARTS ? query[first + h * PARTS + part] : vec4(0.0);
        }
    }
}

// The sink of a query head, as scores are.
float sink_of_head(uint64_t sinks, uint head) { return load_f32(sinks, head * 4); }

void begin_share() {
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        maximum[h] = MINUS_INFINITY;
        sum[h] = 0.0;
        [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) values[h * OWN_EIGHTS * 2 + i] = vec4(0.0);
    }
}

// The page of the tile that is loaded next. It is looked up while the tile before is worked on, so that no load waits for it.
uint next_page;
void look_up(uint tile, LanePages pages) { next_page = page_of(pages, tile * TILE); }

// Loads a lane's eights of the keys and values of a tile, whose page was looked up. Beyond the last position that one stands in: its weight there is 0.
void load_tile(uint tile, uint position, uint64_t key_cache, uint64_t value_cache) {
    uint lane = gl_SubgroupInvocationID;
    uint64_t key_page = cache_of_page(key_cache, KEY_FORMAT, next_page), value_page = cache_of_page(value_cache, VALUE_FORMAT, next_page);
    [[unroll]] for (uint step = 0; step < STEPS; step++) {
        uint row = place_in_page(min(tile * TILE + step * ROWS + lane / ROW_LANES, position));
        [[unroll]] for (uint e = 0; e < OWN_EIGHTS; e++) {
            uint eight = min(lane % ROW_LANES + e * ROW_LANES, EIGHTS - 1);
            [[unroll]] for (uint w = 0; w < KEY_WORDS; w++) {
                key[(step * OWN_EIGHTS + e) * KEY_WORDS + w] = load_uvec4(key_page, row * cache_row_bytes(KEY_FORMAT) + (eight * KEY_WORDS + w) * 16);
            }
            [[unroll]] for (uint w = 0; w < VALUE_WORDS; w++) {
                value[(step * OWN_EIGHTS + e) * VALUE_WORDS + w] = load_uvec4(value_page, row * cache_row_bytes(VALUE_FORMAT) + (eight * VALUE_WORDS + w) * 16);
            }
        }
    }
}

// Takes the tile that was loaded into the share.
void take_tile(uint tile, uint position) {
    uint lane = gl_SubgroupInvocationID;
    float score[STEPS * HEADS];
    [[unroll]] for (uint step = 0; step < STEPS; step++) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) score[step * HEADS + h] = 0.0;
        [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
            uint at = (step * OWN_EIGHTS + i / 2) * KEY_WORDS;
            vec4 part = cache_half(KEY_FORMAT, key[at], key[at + KEY_WORDS - 1], i % 2);
            [[unroll]] for (uint h = 0; h < HEADS; h++) {
                score[step * HEADS + h] = add_dot(score[step * HEADS + h], own_query[h * OWN_EIGHTS * 2 + i], part);
            }
        }
    }
    [[unroll]] for (uint apart = 1; apart < ROW_LANES; apart *= 2) {
        [[unroll]] for (uint i = 0; i < STEPS * HEADS; i++) score[i] += subgroupShuffleXor(score[i], apart);
    }
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        float raised = maximum[h];
        [[unroll]] for (uint step = 0; step < STEPS; step++) {
            if (attends(position, tile * TILE + step * ROWS + lane / ROW_LANES)) raised = max(raised, score[step * HEADS + h]);
        }
        float keep = kept(maximum[h], raised);
        maximum[h] = raised;
        precise float total = sum[h] * keep;
        [[unroll]] for (uint step = 0; step < STEPS; step++) {
            bool inside = attends(position, tile * TILE + step * ROWS + lane / ROW_LANES);
            precise float below = score[step * HEADS + h] - raised;
            float weight = inside ? exp(below) : 0.0;
            score[step * HEADS + h] = weight;
            total = total + weight;
        }
        sum[h] = total;
        if (keep != 1.0) {
            [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) values[h * OWN_EIGHTS * 2 + i] = scaled(values[h * OWN_EIGHTS * 2 + i], keep);
        }
    }
    [[unroll]] for (uint step = 0; step < STEPS; step++) {
        [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
            uint at = (step * OWN_EIGHTS + i / 2) * VALUE_WORDS;
            vec4 part = cache_half(VALUE_FORMAT, value[at], value[at + VALUE_WORDS - 1], i % 2);
            [[unroll]] for (uint h = 0; h < HEADS; h++) {
                values[h * OWN_EIGHTS * 2 + i] = add_scaled(values[h * OWN_EIGHTS * 2 + i], part, score[step * HEADS + h]);
            }
        }
    }
}

// Makes of the lanes' shares, which had different positions, the subgroup's, and stores it as share `share` of a set. The lanes are added pairwise;
// each time a lane keeps half of the parts, as long as it has several, and hands the others over.
void store_share(uint set, uint share) {
    uint lane = gl_SubgroupInvocationID;
    kept_parts = OWN_EIGHTS * 2;
    first_part = 0;
    keeper = true;
    [[unroll]] for (uint apart = ROW_LANES; apart < SUBGROUP; apart *= 2) {
        bool upper = (lane & apart) != 0;
        bool halves = kept_parts > 1;
        if (halves) kept_parts /= 2;
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            float highest = max(maximum[h], subgroupShuffleXor(maximum[h], apart));
            float keep = kept(maximum[h], highest);
            maximum[h] = highest;
            precise float total = sum[h] * keep;
            total = total + subgroupShuffleXor(total, apart);
            sum[h] = total;
            [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
                if (i >= kept_parts) continue;
                uint at = h * OWN_EIGHTS * 2 + i;
                precise vec4 low = values[at] * keep;
                if (halves) {
                    precise vec4 high = values[at + kept_parts] * keep;
                    vec4 other = subgroupShuffleXor(upper ? low : high, apart);
                    precise vec4 both = (upper ? high : low) + other;
                    values[at] = both;
                } else {
                    precise vec4 both = low + subgroupShuffleXor(low, apart);
                    values[at] = both;
                }
            }
        }
        if (halves) first_part += upper ? kept_parts : 0;
        else keeper = keeper && !upper;
    }
    if (subgroupElect()) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            maxima[(set * PLACES + share) * HEADS + h] = maximum[h];
            sums[(set * PLACES + share) * HEADS + h] = sum[h];
        }
    }
    if (keeper) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            [[unroll]] for (uint i = 0; i < OWN_EIGHTS * 2; i++) {
                uint part = part_of_head(first_part + i);
                if (i < kept_parts && part < PARTS) joined[((set * SHARES + share) * HEADS + h) * PARTS + part] = values[h * OWN_EIGHTS * 2 + i];
            }
        }
    }
}

// Joins the maxima and sums of the first `count` shares of a set, by one of `threads` threads a share and head: fills `keeps` and `totals`, and gives the
// joined maximum and sum of head `thread`, if there is one.
vec2 join_shares(uint set, uint count, uint thread, uint threads) {
    uint first = set * PLACES * HEADS;
    vec2 all = vec2(0.0);
    for (uint i = thread; i < count * HEADS; i += threads) {
        uint h = i % HEADS;
        float highest = maxima[first + h];
        for (uint s = 1; s < count; s++) highest = max(highest, maxima[first + s * HEADS + h]);
        precise float total = 0.0;
        for (uint s = 0; s < count; s++) {
            total = fma(sums[first + s * HEADS + h], share_kept(maxima[first + s * HEADS + h], highest), total);
        }
        keeps[first + i] = share_kept(maxima[first + i], highest);
        if (i < HEADS) totals[set * HEADS + i] = total;
        if (i == thread) all = vec2(highest, total);
    }
    return all;
}

// Part i, of all heads, of the sum of a set's first `count` shares.
vec4 joined_part(uint set, uint count, uint i) {
    vec4 sum = vec4(0.0);
    for (uint s = 0; s < count; s++) {
        sum = add_scaled(sum, joined[(set * SHARES + s) * HEADS * PARTS + i], keeps[(set * PLACES + s) * HEADS + i / PARTS]);
    }
    return sum;
}
