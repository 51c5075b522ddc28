// What the forms of `attention` have in common: the operands, the append of the step's own keys and values, idle workgroups, and the rounded result.
//
// Whoever includes this has `cache_rows.glsl`, `heads.glsl`, `activations.glsl`, `window.glsl` and the specialisation constants HEADS, the query heads of a
// workgroup, and GROUPS, the workgroups that share a key and value head; and defines `sink_of_head` and `head_part`, which are declared below.

layout(push_constant, scalar) uniform Push {
    uint64_t state;
    uint64_t q;           // [query_heads, HEAD_SIZE] f32
    uint64_t k;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t v;           // [KV_HEADS, HEAD_SIZE] f32
    uint64_t q_norm;      // [HEAD_SIZE] f32, read by NORMALISE; else of SINKS [query_heads] f32, since devices need not have room for more operands
    uint64_t k_norm;      // [HEAD_SIZE] f32, read by NORMALISE
    uint64_t rotation;    // [context, ROTATED / 2] pairs (cos, sin) f32
    uint64_t key_cache;   // [positions, KV_HEADS * HEAD_SIZE] in KEY_FORMAT
    uint64_t value_cache; // [positions, KV_HEADS * HEAD_SIZE] in VALUE_FORMAT
    uint64_t partials;    // [rows, groups, splits, HEADS * (HEAD_SIZE + 4)] f32: weighted values; maxima and sums
    uint64_t y;           // [query_heads, HEAD_SIZE] f32, or rounded
    uint64_t counters;    // [rows, groups] u32, 0
    uint64_t next;        // what the next operation reads, a multiple of 16 bytes
    uint next_bytes;
    uint splits;          // of a context, that there is room for in `partials`
    uint q_stride;        // bytes from one row of the step to the next, as the strides below
    uint k_stride;
    uint v_stride;
    uint y_stride;
} push;

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint WARM_AHEAD = 8;
const uint SPLIT_BYTES = HEADS * (HEAD_SIZE + 4) * 4; // of the partial results of a split

// The sink of a query head, as scores are.
float sink_of_head(uint64_t sinks, uint head);

// The partial results of the workgroup's row and group: of its first split.
uint64_t own_partials() { return push.partials + uint64_t((row_index() * gl_NumWorkGroups.y + gl_WorkGroupID.y) * push.splits * SPLIT_BYTES); }

// Brings the next operation's weights into the device's cache, by an idle workgroup. Each workgroup of the launch has its own part of them, however many are idle,
// so that none takes long. What is read goes to the last of the row's partial results, which nobody reads where workgroups are idle: else it would not have to be
// read.
void warm_cache() {
    uint stride = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_WorkGroupSize.x * 16;
    uvec4 read = uvec4(0);
    for (uint at = ((gl_WorkGroupID.x * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_WorkGroupSize.x + lane_index()) * 16; at < push.next_bytes; at += WARM_AHEAD * stride) {
        uvec4 ahead[WARM_AHEAD];
        [[unroll]] for (uint n = 0; n < WARM_AHEAD; n++) ahead[n] = load_uvec4(push.next, min(at + n * stride, push.next_bytes - 16));
        [[unroll]] for (uint n = 0; n < WARM_AHEAD; n++) read ^= ahead[n];
    }
    uint word = subgroupXor(read.x ^ read.y ^ read.z ^ read.w);
    if (subgroupElect()) store_u32(own_partials() + uint64_t((push.splits - 1) * SPLIT_BYTES), gl_SubgroupID * 4, word);
}

// The positions of a lane's rows, from `first` to `last`, that the workgroup has to append: those in its own turns of the context, which are `turn`
// positions long and go to the splits one after the other, from turn `origin` on, which goes to the first. The first of them, and their number. What lies before
// position `start`, where the first tile of the row's window begins, is left to other rows.
uvec2 own_positions(uint first, uint last, uint start, uint turn, uint origin, uint split, uint splits) {
    if (WINDOW != 0) first = max(first, start);
    uint first_turn = first / turn - origin, last_turn = last / turn - origin; // at most one apart
    if (last_turn % splits == split) {
        if (first_turn != last_turn && first_turn % splits != split) first = (origin + last_turn) * turn;
        return uvec2(first, last + 1 - first);
    }
    return uvec2(first, first_turn != last_turn && first_turn % splits == split ? (origin + last_turn) * turn - first : 0);
}

// Sinks of the workgroup's heads. That of a thread's first part of the result is loaded while the first tile is, so that in the end nothing waits for it.
float first_sink;
float load_sink(uint part) { return sink_of_head(push.q_norm, gl_WorkGroupID.y * HEADS + min(part / (HEAD_SIZE / 4), HEADS - 1)); }
void load_first_sink() { if (SINKS != 0) first_sink = load_sink(lane_index()); }
// The sink of the head that part `part` of the result belongs to.
float sink_of_part(uint part) {
    if (SINKS == 0) return 0.0;
    return part == lane_index() ? first_sink : load_sink(part);
}

// Prepares query head `item` of the workgroup, by one subgroup.
void prepare_query_head(uint item, uint position, out vec2 pairs[OWN_PAIRS]) {
    uint64_t head = of_row(push.q, push.q_stride) + uint64_t((gl_WorkGroupID.y * HEADS + item) * HEAD_SIZE * 4);
    prepare_head(head, push.q_norm, push.rotation, position, pairs);
}

// Appends the key and the value of the step's row number `row`, by one subgroup, where the pages of its lane are `pages`.
void append_entry(uint row, uint position, LanePages pages) {
    uint kv_head = gl_WorkGroupID.y / GROUPS, head = kv_head * HEAD_SIZE * 4;
    uint page = page_of(pages, position);
    vec2 key[OWN_PAIRS], value[OWN_PAIRS];
    load_pairs(push.v + uint64_t(row * push.v_stride + head), value);
    prepare_head(push.k + uint64_t(row * push.k_stride + head), push.k_norm, push.rotation, position, key);
    make_finite(key, value);
    uint64_t key_row = cache_row(cache_of_head(push.key_cache, KEY_FORMAT, kv_head), KEY_FORMAT, page, position);
    store_entry(key_row, cache_row(cache_of_head(push.value_cache, VALUE_FORMAT, kv_head), VALUE_FORMAT, page, position), key, value);
}

// Four elements of the result of the workgroup's heads, in shared memory.
vec4 head_part(uint part);

// Rounds the result of the workgroup's heads. Every thread takes part.
void store_rounded_heads(uint64_t y) {
    barrier();
    const uint own_groups = HEADS * HEAD_SIZE / 256;
    for (uint g = gl_SubgroupID; g < own_groups; g += SUBGROUPS) {
        vec4 parts[LANE_PARTS];
        [[unroll]] for (uint n = 0; n < LANE_PARTS; n++) parts[n] = head_part(g * 64u + n * SUBGROUP + gl_SubgroupInvocationID);
        store_rounded(y, gl_NumWorkGroups.y * own_groups, gl_WorkGroupID.y * own_groups + g, parts);
    }
}
