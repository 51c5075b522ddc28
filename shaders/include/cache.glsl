// How keys and values lie in the KV cache: the values of the specialisation constants that say so.
const uint CACHE_F32 = 0, CACHE_F16 = 1;
