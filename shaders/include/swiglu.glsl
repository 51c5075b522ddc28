// silu(gate) * up, with each operation rounded by itself.
float swiglu(float gate, float up) {
    precise float denominator = 1.0 + exp(-gate);
    precise float silu = gate / denominator;
    precise float product = silu * up;
    return product;
}
