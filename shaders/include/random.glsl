// Random numbers for sampling, a logarithm and an exponential, whose bits are the same on every device and on the host: integer operations,
// and float additions and multiplications that may not be contracted. The Rust twin is `reference::random`.

// Natural logarithm of a positive normal number: Cephes' logf (S. Moshier), restated with plain additions and multiplications.
float exact_log(float x) {
    uint bits = floatBitsToUint(x);
    int exponent = int(bits >> 23) - 126;
    float m = uintBitsToFloat((bits & 0x7fffffu) | 0x3f000000u); // in [0.5, 1)
    if (m < 0.70710678118654752440) {
        exponent -= 1;
        m = m + m;
    }
    precise float f = m - 1.0;
    precise float z = f * f;
    precise float y = 7.0376836292e-2;
    y = y * f; y = y - 1.1514610310e-1;
    y = y * f; y = y + 1.1676998740e-1;
    y = y * f; y = y - 1.2420140846e-1;
    y = y * f; y = y + 1.4249322787e-1;
    y = y * f; y = y - 1.6668057665e-1;
    y = y * f; y = y + 2.0000714765e-1;
    y = y * f; y = y - 2.4999993993e-1;
    y = y * f; y = y + 3.3333331174e-1;
    y = y * f; y = y * z;
    precise float e = float(exponent);
    precise float low = e * -2.12194440e-4;
    y = y + low;
    precise float half_z = z * 0.5;
    y = y - half_z;
    precise float result = f + y;
    precise float high = e * 0.693359375;
    result = result + high;
    return result;
}

// The exponential of a number from -87 to 87, so that it is normal: Cephes' expf (S. Moshier), restated like the logarithm.
float exact_exp(float x) {
    precise float scaled = x * 1.44269504088896341;
    scaled = scaled + 0.5;
    int exponent = int(scaled); // towards zero; the next line makes it the floor
    if (float(exponent) > scaled) exponent -= 1;
    precise float high = float(exponent) * 0.693359375;
    precise float low = float(exponent) * -2.12194440e-4;
    precise float f = x - high;
    f = f - low;
    precise float z = f * f;
    precise float y = 1.9875691500e-4;
    y = y * f; y = y + 1.3981999507e-3;
    y = y * f; y = y + 8.3334519073e-3;
    y = y * f; y = y + 4.1665795894e-2;
    y = y * f; y = y + 1.6666665459e-1;
    y = y * f; y = y + 5.0000001201e-1;
    y = y * z; y = y + f;
    y = y + 1.0; // from 0.7 to 1.5: the exponent can be added as bits
    return uintBitsToFloat(floatBitsToUint(y) + uint(exponent << 23));
}

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011).
uvec4 philox(uvec4 counter, uvec2 key) {
    for (int round = 0; round < 10; round++) {
        uint high0, low0, high1, low1;
        umulExtended(0xD2511F53u, counter.x, high0, low0);
        umulExtended(0xCD9E8D57u, counter.z, high1, low1);
        counter = uvec4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

// A Gumbel variate from 23 random bits: -log(-log(u)) with u at the middle of its 2^-23 interval, so that neither logarithm sees 0 or 1.
float gumbel(uint random) {
    precise float u = (float(random >> 9) + 0.5) * 1.1920928955078125e-7;
    return -exact_log(-exact_log(u));
}

// What a draw compares: the logit, or logit / temperature plus a Gumbel variate. The highest of these is distributed as the softmax.
float draw_score(float logit, float inverse_temperature, uint random) {
    precise float score = logit;
    if (inverse_temperature != 0.0) {
        score = score * inverse_temperature;
        score = score + gumbel(random);
    }
    return score;
}
