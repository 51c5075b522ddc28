// The width of subgroups: specialisation constant 1 of every kernel.
#ifndef SUBGROUP_WIDTH
#define SUBGROUP_WIDTH
layout(constant_id = 1) const uint SUBGROUP = 32;
#endif
