// Attention by float matrix units: what the forms of `attention` and `attention_rows` for them have in common. Both do the same operations in the same
// order, so that a row has the same bits in both, whatever rows are beside it.
//
// A fragment has 16 pairs of a row and one of the query heads that share a key and value head. It takes the keys by tiles, in order. Scores are products
// of halves, in base 2, because queries come multiplied with log2(e) / sqrt(head size). Weights are rounded to halves, and the sum of the weights is a
// product with ones, so that it has the weights as the values get them. 256 keys are a split, which begins anew; splits are joined one after the
// other. What is masked has a score, and what is new a maximum, that is finite: a tile or a split without a key of the row changes nothing.
// (Online softmax: Milakov and Gimelshein, 2018; tiles: Dao et al., FlashAttention-2, 2023.)
//
// Whoever includes this has `workgroup.glsl`, `half.glsl`, `cache_rows.glsl`, `window.glsl` and the specialisation constants HEAD_SIZE and QUERY_SCALE, and
// defines SHARERS: how many teams of 32 lanes share a fragment. Each of them takes a part of a tile's keys, and then a part of the head's elements. Teams whose
// numbers follow each other share one; a workgroup has as many fragments as its teams allow.

const uint MOST_KEYS = 64;                          // of a tile
const uint TILE = HEAD_SIZE > 128 ? MOST_KEYS / 2 : MOST_KEYS; // keys: shared memory has room for fewer large ones
const uint SPLIT = 256;                             // keys
const uint PARTS = HEAD_SIZE / 4;                   // of a head, four elements each
const uint EIGHTS = HEAD_SIZE / 8;                  // of a head, eight elements each: a uvec4 of halves
const uint STRIDE = EIGHTS + 1;                     // of a head in shared memory, in uvec4: neighbours begin in different banks
const uint KEY_FRAGMENTS = TILE / 16;
const uint HEAD_FRAGMENTS = HEAD_SIZE / 16;
const uint OWN_KEYS = KEY_FRAGMENTS >= SHARERS ? KEY_FRAGMENTS / SHARERS : 1; // fragments of a team
const uint OWN_HEAD = HEAD_FRAGMENTS / SHARERS;     // fragments of a team
const uint WEIGHT_STRIDE = TILE / 8 + 1;            // of a row of weights in shared memory, in uvec4
const uint VALUES = TILE * STRIDE;                  // where the values of a tile begin, behind its keys
const uint FRAGMENTS = gl_WorkGroupSize.x / 32 / SHARERS; // of pairs, of a workgroup
const float MASKED = -1e38;
const float NO_MAXIMUM = -1e30;
const float LOG2_E = 1.44269504;

shared uvec4 staged[2 * TILE * STRIDE];             // a tile: keys, then values
#include "include/half_fragments.glsl"
shared uvec4 weights[SHARERS > 1 ? FRAGMENTS * 16 * WEIGHT_STRIDE : 1];
shared float maxima[SHARERS > 1 ? FRAGMENTS * 16 * SHARERS : 1]; // of each row and team

// The fragment of the lane's team, of those of the workgroup, and the team's number among those that share it.
uint own_fragment() { return team_index() / SHARERS; }
uint own_sharer() { return team_index() % SHARERS; }

// The fragment's state: its queries, and of its split the weighted values, the sums of the weights in all columns, and the maxima of the lane's two rows.
Left query[HEAD_FRAGMENTS];
Sums values[OWN_HEAD];
Sums sums;
float maximum[2];

// The sink of a query head, in base 2 as scores are.
float sink_of_head(uint64_t sinks, uint head) {
    precise float sink = load_f32(sinks, head * 4) * LOG2_E;
    return sink;
}

void begin_split() {
    UNROLL for (uint n = 0; n < OWN_HEAD; n++) values[n] = NO_SUMS;
    sums = NO_SUMS;
    maximum[0] = NO_MAXIMUM;
    maximum[1] = NO_MAXIMUM;
}

// Loads the queries of the team's fragment, whose rows begin at `at` in `staged`.
void load_query(uint at) {
    UNROLL for (uint n = 0; n < HEAD_FRAGMENTS; n++) LOAD_LEFT(query[n], staged, at + n * 2, STRIDE);
}

// Eight elements of a query, multiplied with QUERY_SCALE and rounded to halves.
uvec4 query_halves(vec4 first, vec4 second) {
    precise vec4 low = first * QUERY_SCALE;
    precise vec4 high = second * QUERY_SCALE;
    return uvec4(two_halves(low.x, low.y), two_halves(low.z, low.w), two_halves(high.x, high.y), two_halves(high.z, high.w));
}

// What the workgroup loads ahead of a tile: of its keys and of its values, the pieces of each thread.
const uint PIECES = TILE * EIGHTS / gl_WorkGroupSize.x;
uvec4 next_keys[PIECES], next_values[PIECES];

// The page of the tile that is loaded next. It is looked up while the tile before is worked on, so that no load waits for it.
uint next_page;
void look_up(uint tile, LanePages pages) { next_page = page_of(pages, tile * TILE); }

// Loads a tile, whose page was looked up. For keys behind `last`, that one stands in: they are masked, and its values are finite, as all in the cache.
void load_tile(uint tile, uint last, uint64_t key_cache, uint64_t value_cache) {
    uint64_t key_page = cache_of_page(key_cache, CACHE_F16, next_page), value_page = cache_of_page(value_cache, CACHE_F16, next_page);
    [[unroll]] for (uint n = 0; n < PIECES; n++) {
        uint piece = n * gl_WorkGroupSize.x + lane_index();
        uint offset = place_in_page(min(tile * TILE + piece / EIGHTS, last)) * cache_row_bytes(CACHE_F16) + piece % EIGHTS * 16u;
        next_keys[n] = load_uvec4(key_page, offset);
        next_values[n] = load_uvec4(value_page, offset);
    }
}
// Puts the tile that was loaded into shared memory.
void stage_tile() {
    [[unroll]] for (uint n = 0; n < PIECES; n++) {
        uint piece = n * gl_WorkGroupSize.x + lane_index(), at = piece / EIGHTS * STRIDE + piece % EIGHTS;
        staged[at] = next_keys[n];
        staged[VALUES + at] = next_values[n];
    }
}

// What is left of a split, or of those joined so far, with the maximum `own`, beside the highest maximum of the two.
float kept(float own, float highest) {
    precise float below = own - highest;
    return exp2(below);
}

// Takes the staged tile, whose first key is `first`. The lane's rows are at these positions; unless `masked`, they attend to all of the tile's keys.
void take_tile(uint first, uvec2 positions, bool masked) {
    uint team = own_sharer(), lane = team_lane(), fragment_row = own_fragment() * 16;
    Sums scores[OWN_KEYS];
    UNROLL for (uint j = 0; j < OWN_KEYS; j++) scores[j] = NO_SUMS;
    UNROLL for (uint n = 0; n < HEAD_FRAGMENTS; n++) {
        UNROLL for (uint j = 0; j < OWN_KEYS; j++) {
            Right keys;
            LOAD_COLUMNS(keys, min(j * SHARERS + team, KEY_FRAGMENTS - 1) * 16 * STRIDE + n * 2, STRIDE);
            scores[j] = MULTIPLY_ADD(query[n], keys, scores[j]);
        }
    }
    if (masked) {
        UNROLL for (uint j = 0; j < OWN_KEYS; j++) {
            UNROLL for (uint i = 0; i < 8; i++) {
                uint key = first + min(j * SHARERS + team, KEY_FRAGMENTS - 1) * 16 + element_column(i);
                if (!attends(positions[i / 4], key)) ELEMENT(scores[j], i) = MASKED;
            }
        }
    }
    // The maxima of the lane's rows, over all of the tile's keys.
    float raised[2];
    UNROLL for (uint r = 0; r < 2; r++) {
        float highest = MASKED;
        UNROLL for (uint j = 0; j < OWN_KEYS; j++) {
            UNROLL for (uint i = 0; i < 4; i++) highest = max(highest, ELEMENT(scores[j], r * 4 + i));
        }
        highest = max(highest, subgroupShuffleXor(highest, 1));
        raised[r] = max(highest, subgroupShuffleXor(highest, 2));
    }
    if (SHARERS > 1) {
        if (lane % 4u == 0u) {
            UNROLL for (uint r = 0; r < 2; r++) maxima[(fragment_row + lane / 4u + 8u * r) * SHARERS + team] = raised[r];
        }
        barrier();
        UNROLL for (uint r = 0; r < 2; r++) {
            UNROLL for (uint other = 0; other < SHARERS; other++) raised[r] = max(raised[r], maxima[(fragment_row + lane / 4u + 8u * r) * SHARERS + other]);
        }
    }
    // What is left of the split so far beside the new maxima.
    float keep[2];
    UNROLL for (uint r = 0; r < 2; r++) {
        float highest = max(maximum[r], raised[r]);
        keep[r] = kept(maximum[r], highest);
        maximum[r] = highest;
    }
    Left own_weights[SHARERS > 1 ? 1 : OWN_KEYS];
    UNROLL for (uint j = 0; j < OWN_KEYS; j++) {
        uint words[4];
        UNROLL for (uint i = 0; i < 4; i++) {
            precise vec2 below = vec2(ELEMENT(scores[j], i * 2), ELEMENT(scores[j], i * 2 + 1)) - maximum[i / 2];
            words[i] = two_halves(exp2(below.x), exp2(below.y));
        }
        if (SHARERS > 1) {
            uint keys = j * SHARERS + team;
            if (keys < KEY_FRAGMENTS) {
                UNROLL for (uint i = 0; i < 4; i++) weights[(fragment_row + lane / 4u + i / 2 * 8) * WEIGHT_STRIDE + keys * 2u + i % 2][lane % 4u] = words[i];
            }
        } else MAKE_LEFT(own_weights[j], words);
    }
    if (SHARERS > 1) barrier();
    if (!subgroupAll(keep[0] == 1.0 && keep[1] == 1.0)) {
        UNROLL for (uint i = 0; i < 8; i++) {
            ELEMENT(sums, i) *= keep[i / 4];
            UNROLL for (uint n = 0; n < OWN_HEAD; n++) ELEMENT(values[n], i) *= keep[i / 4];
        }
    }
    UNROLL for (uint j = 0; j < KEY_FRAGMENTS; j++) {
        Left of_keys;
        if (SHARERS > 1) LOAD_LEFT(of_keys, weights, fragment_row * WEIGHT_STRIDE + j * 2, WEIGHT_STRIDE);
        else of_keys = own_weights[SHARERS > 1 ? 0 : j];
        sums = MULTIPLY_ADD(of_keys, ONES, sums);
        UNROLL for (uint n = 0; n < OWN_HEAD; n++) {
            Right of_head;
            LOAD_ROWS(of_head, VALUES + j * 16 * STRIDE + (team * OWN_HEAD + n) * 2, STRIDE);
            values[n] = MULTIPLY_ADD(of_keys, of_head, values[n]);
        }
    }
}
