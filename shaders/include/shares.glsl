// The vocabulary by shares: each workgroup of one kernel sums its share up and lists the candidates in it, and the single workgroup of the
// next kernel chooses among those.
//
// A list has three parts: the candidates' logits, their ids, and their scores, each [shares, SHARE_IDS] words. Of a share the first `listed`
// entries are valid, by rising id. With a limit k a list is cut: it holds at least the k highest of the share, and whatever is equal to the least
// of what it holds.

const uint SHARE_IDS = 2048;
const uint MAX_SHARES = 512;

// The summary of a share.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Share {
    uint finite;     // candidates: tokens whose logits are neither NaN nor infinite
    uint non_finite; // tokens whose logits are NaN or plus infinity
    uint highest;    // the order key of the highest candidate, 0 if there is none
    uint some;       // an order key that SOME listed candidates reach, and not many more; 0 if fewer are listed
    uint least;      // where the list holds k candidates or more: the order key of its least, else 0
    uint listed;     // entries of the list
};
const uint SHARE_BYTES = 24;
const uint SOME = 8;

// What lists are made of, in the order of the three parts.
const uint PART_LOGITS = 0, PART_IDS = 1, PART_SCORES = 2;

uint share_count(uint vocabulary) { return (vocabulary + SHARE_IDS - 1) / SHARE_IDS; }
// Byte offset of an entry of a part, in a vocabulary of so many shares.
uint item_offset(uint part, uint shares, uint share, uint entry) { return ((part * shares + share) * SHARE_IDS + entry) * 4; }
