// How the splits of a context are joined: one after the other, each with what is kept of it and of those before it beside the highest maximum so far. The
// first is taken as it is. docs/arithmetic.md defines the sequence.
//
// Whoever includes this has the specialisation constant SINKS, 1 if heads have sinks, and defines `kept`, which is declared below.

// What is left of a split, or of those joined so far, with the maximum `own`, beside the highest maximum of the two.
float kept(float own, float highest);

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
vec4 scaled(vec4 a, float scale) {
    precise vec4 product = a * scale;
    return product;
}
// A weighted value of all splits, whose weights have the sum `total`, divided by it.
vec4 divided(vec4 value, float total) {
    precise float inverse = 1.0 / total;
    precise vec4 result = value * inverse;
    return result;
}
// Four elements of a head's result, given those of all splits: weighted values, the sum of the weights and the maximum. A sink is a score without a key: behind
// the last split it is joined as if it were one more, with itself as the maximum, the sum 1 and the result 0.
vec4 result_of_splits(vec4 value, float total, float maximum, float sink) {
    if (SINKS == 0) return divided(value, total);
    float highest = max(maximum, sink), splits_kept = kept(maximum, highest);
    return divided(scaled(value, splits_kept), join_split(total, splits_kept, 1.0, kept(sink, highest)));
}
