// The sigmoid, 1 / (1 + exp(-x)), of one number or of each of four, with each operation rounded by itself.
float sigmoid(float x) {
    precise float denominator = 1.0 + exp(-x);
    return 1.0 / denominator;
}
vec4 sigmoid(vec4 x) {
    precise vec4 denominator = 1.0 + exp(-x);
    return 1.0 / denominator;
}
