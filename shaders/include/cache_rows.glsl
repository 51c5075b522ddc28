// Where keys and values lie in the KV cache. Whoever includes this has the specialisation constants HEAD_SIZE, KV_HEADS, LANE_PAGES, the pages that the
// table of a lane has room for, and RING_PAGES, the pages of a lane's ring.
//
// The cache of a layer is a pool of pages, which the lanes share: page 0, page 1 and so on lie one behind the other, PAGE_POSITIONS positions each. A lane has
// the numbers of its pages in a table behind the state, in the order of its positions. With LANE_PAGES 0, in a model of one lane, there are no tables: the
// positions of the lane lie one behind the other, as in a page without an end.
//
// With RING_PAGES above 0 the layer has no such pool: each lane has a ring of so many pages for itself, one lane's behind the other's, and a position lies where
// the one that is a whole ring before it has lain. A ring is for a layer with a window, and has all pages that the window of a step's first row and the step's
// rows reach into.

// Bytes of an element of the cache, and of a row: of all heads at one position.
uint cache_bytes(uint format) { return format == CACHE_F16 ? 2u : 4u; }
uint cache_row_bytes(uint format) { return KV_HEADS * HEAD_SIZE * cache_bytes(format); }
// Where the pages of a lane are found.
struct LanePages {
    uint64_t table; // that of their numbers
    uint ring;      // the first page of its ring
};
LanePages pages_of_lane(uint64_t state, uint lane) {
    return LanePages(state + uint64_t(PAGES_OFFSET + lane * LANE_PAGES * 4), lane * RING_PAGES);
}
// The page that a position of a lane lies in.
uint page_of(LanePages pages, uint position) {
    if (RING_PAGES != 0) return pages.ring + position / PAGE_POSITIONS % RING_PAGES;
    return LANE_PAGES == 0 ? 0u : load_uniform_u32(pages.table, position / PAGE_POSITIONS * 4);
}
// The place of a position in its page.
uint place_in_page(uint position) { return LANE_PAGES == 0 && RING_PAGES == 0 ? position : position % PAGE_POSITIONS; }
// A head's part of the cache: where its first position in page 0 lies.
uint64_t cache_of_head(uint64_t cache, uint format, uint kv_head) { return cache + uint64_t(kv_head * HEAD_SIZE * cache_bytes(format)); }
// A head's part of a page, given its part of the cache: where its first position in that page lies.
uint64_t cache_of_page(uint64_t head, uint format, uint page) { return head + uint64_t(page) * uint64_t(PAGE_POSITIONS * cache_row_bytes(format)); }
// The row of a position that lies in this page, given the head's part of the cache.
uint64_t cache_row(uint64_t head, uint format, uint page, uint position) {
    return cache_of_page(head, format, page) + uint64_t(place_in_page(position)) * uint64_t(cache_row_bytes(format));
}
