// Where keys and values lie in the KV cache. Whoever includes this has the specialisation constants HEAD_SIZE, KV_HEADS and LANE_PAGES, the pages that the
// table of a lane has room for.
//
// The cache of a layer is a pool of pages, which the lanes share: page 0, page 1 and so on lie one behind the other, PAGE_POSITIONS positions each. A lane has
// the numbers of its pages in a table behind the state, in the order of its positions. With LANE_PAGES 0, in a model of one lane, there are no tables: the
// positions of the lane lie one behind the other, as in a page without an end.

// Bytes of an element of the cache, and of a row: of all heads at one position.
uint cache_bytes(uint format) { return format == CACHE_F16 ? 2u : 4u; }
uint cache_row_bytes(uint format) { return KV_HEADS * HEAD_SIZE * cache_bytes(format); }
// The table of a lane's pages.
uint64_t page_table(uint64_t state, uint lane) { return state + uint64_t(PAGES_OFFSET + lane * LANE_PAGES * 4); }
// The page that a position of the lane with this table lies in.
uint page_of(uint64_t table, uint position) { return LANE_PAGES == 0 ? 0u : load_uniform_u32(table, position / PAGE_POSITIONS * 4); }
// The place of a position in its page.
uint place_in_page(uint position) { return LANE_PAGES == 0 ? position : position % PAGE_POSITIONS; }
// A head's part of the cache: where its first position in page 0 lies.
uint64_t cache_of_head(uint64_t cache, uint format, uint kv_head) { return cache + uint64_t(kv_head * HEAD_SIZE * cache_bytes(format)); }
// A head's part of a page, given its part of the cache: where its first position in that page lies.
uint64_t cache_of_page(uint64_t head, uint format, uint page) { return head + uint64_t(page) * uint64_t(PAGE_POSITIONS * cache_row_bytes(format)); }
// The row of a position that lies in this page, given the head's part of the cache.
uint64_t cache_row(uint64_t head, uint format, uint page, uint position) {
    return cache_of_page(head, format, page) + uint64_t(place_in_page(position)) * uint64_t(cache_row_bytes(format));
}
