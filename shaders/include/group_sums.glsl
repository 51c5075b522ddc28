// Sums of a group of 256 floats in the order of docs/arithmetic.md, by one subgroup. Each lane has LANE_PARTS parts of four elements: parts `lane`,
// `lane + SUBGROUP` and so on, of the 64 of the group.
#ifndef GROUP_SUMS
#define GROUP_SUMS
#extension GL_EXT_control_flow_attributes : require

const uint LANE_PARTS = 64 / SUBGROUP;
const uint LEVELS = SUBGROUP == 64 ? 6 : SUBGROUP == 32 ? 5 : SUBGROUP == 16 ? 4 : 3; // of joining by lanes: the logarithm of SUBGROUP

float sum_of_two(float a, float b) {
    precise float sum = a + b;
    return sum;
}
// The sum of a lane's parts of a group: part i and part i + 32 are joined, then i and i + 16, as long as both are the lane's. Written out, since drivers
// leave nested loops as they are, and with them the parts in memory. Remainders keep the indices of branches that are not taken in the array.
float joined_parts(float parts[LANE_PARTS]) {
    if (LANE_PARTS == 1) return parts[0];
    if (LANE_PARTS == 2) return sum_of_two(parts[0], parts[1 % LANE_PARTS]);
    float even = sum_of_two(parts[0], parts[2 % LANE_PARTS]), odd = sum_of_two(parts[1 % LANE_PARTS], parts[3 % LANE_PARTS]);
    if (LANE_PARTS == 8) {
        even = sum_of_two(sum_of_two(parts[0], parts[4 % LANE_PARTS]), sum_of_two(parts[2 % LANE_PARTS], parts[6 % LANE_PARTS]));
        odd = sum_of_two(sum_of_two(parts[1 % LANE_PARTS], parts[5 % LANE_PARTS]), sum_of_two(parts[3 % LANE_PARTS], parts[7 % LANE_PARTS]));
    }
    return sum_of_two(even, odd);
}
// The sum of a group in the order of docs/arithmetic.md, from the sums of its parts: part i and part i + 32 are joined, then i and i + 16, down
// to neighbours. All lanes get it.
float group_sum(float parts[LANE_PARTS]) {
    float sum = joined_parts(parts);
    [[unroll]] for (uint level = 1; level <= LEVELS; level++) sum = sum_of_two(sum, subgroupShuffleXor(sum, SUBGROUP >> level));
    return sum;
}
#endif
