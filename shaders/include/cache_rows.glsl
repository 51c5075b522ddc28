// Where keys and values lie in the KV cache. Whoever includes this has the specialisation constants HEAD_SIZE and KV_HEADS.

// Bytes of an element of the cache, and of a row: of all heads at one position.
uint cache_bytes(uint format) { return format == CACHE_F16 ? 2u : 4u; }
uint cache_row_bytes(uint format) { return KV_HEADS * HEAD_SIZE * cache_bytes(format); }
// Positions of the lanes that lie before a lane in the cache. Kernels load it beside the number of rows, since the first keys wait for it.
uint64_t positions_before(uint64_t state, uint lane) { return uint64_t(lane) * uint64_t(load_uniform_u32(state, LANE_POSITIONS_OFFSET)); }
// A head's part of a lane's part of the cache, where `before` is what `positions_before` gives: where its first position lies.
uint64_t cache_of_head(uint64_t cache, uint format, uint64_t before, uint kv_head) {
    return cache + before * uint64_t(cache_row_bytes(format)) + uint64_t(kv_head * HEAD_SIZE * cache_bytes(format));
}
// The row of a position, behind that of the first position.
uint64_t cache_row(uint64_t cache, uint format, uint position) { return cache + uint64_t(position) * uint64_t(cache_row_bytes(format)); }
