// How keys and values lie in the KV cache: the values of the specialisation constants that say so.
const uint CACHE_F32 = 0, CACHE_F16 = 1;
// Positions of a page of the cache: at least as many as a tile of keys of any form of attention has, so that a tile lies in one page.
const uint PAGE_POSITIONS = 64;
