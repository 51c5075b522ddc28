// The sigmoid linear unit of four elements: x * sigmoid(x), with each operation rounded by itself.
vec4 silu(vec4 x) {
    precise vec4 denominator = 1.0 + exp(-x);
    precise vec4 result = x / denominator;
    return result;
}
