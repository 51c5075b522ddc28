// Products of weights with the f32 activations of a row by parts of four elements: what the order of docs/arithmetic.md is made of.
//
// Whoever includes this has `activations.glsl` and PARTS.

// The products of a part's four elements, added one after the other.
float part_product(vec4 weights, vec4 x) {
    precise vec4 products = weights * x;
    precise float sum = products.x + products.y;
    sum = sum + products.z;
    sum = sum + products.w;
    return sum;
}
// The number in the row of the lane's part n of a group. The last group of a row may have fewer parts than lanes take: those from PARTS on count as 0.
uint own_part(uint group, uint n) { return group * 64u + n * SUBGROUP + gl_SubgroupInvocationID; }
// The part that is loaded for one that may lie behind the row's end: the row's last part there, so that every load is of valid memory.
uint inside(uint part) { return min(part, PARTS - 1); }
