// How the splits of a context are joined: one after the other, each with what is kept of it and of those before it beside the highest maximum so far. The
// first is taken as it is. docs/arithmetic.md defines the sequence.

// Joins a split's number, a sum of weights or of weighted values, to that of the splits before it.
float join_split(float before, float before_kept, float own, float own_kept) {
    precise float rest = before * before_kept;
    precise float joined = fma(own, own_kept, rest);
    return joined;
}
vec4 join_split(vec4 before, float before_kept, vec4 own, float own_kept) {
    precise vec4 rest = before * before_kept;
    precise vec4 joined = fma(own, vec4(own_kept), rest);
    return joined;
}
// A weighted value of all splits, whose weights have the sum `total`, divided by it.
vec4 divided(vec4 value, float total) {
    precise float inverse = 1.0 / total;
    precise vec4 result = value * inverse;
    return result;
}
