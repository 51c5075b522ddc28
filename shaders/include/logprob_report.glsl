// What `logprobs` reports: enough for the log-softmax of any logit of the step.

const uint TOP_LOGPROBS = 20;

// One for each lane and ring slot, in host-visible memory, for lanes of one row. The natural logarithm of a token's probability is its logit - highest - log(mass / 2^40).
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer LogprobReport {
    uint64_t mass;              // of the softmax weights of all tokens, relative to the highest logit
    float highest;              // logit
    uint count;                 // tokens listed: as many as have finite logits, at most TOP_LOGPROBS
    uint ids[TOP_LOGPROBS];     // of the tokens with the highest logits, by falling logit, then by rising id
    float logits[TOP_LOGPROBS]; // of those
};
const uint LOGPROB_REPORT_BYTES = 176;
