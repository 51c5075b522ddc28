//! Interfaces of the kernels. Written by `cargo xtask shaders` from the GLSL under `shaders/`; edit that instead.

// Hashes by which `--check` tells whether this file is up to date:
//   772bd6f11b55fb2b88d72453ae26e4dd0879dcf2716a4a9fa9690dae2af508df crates/zinc-kernels/spv/advance.spv
//   e4516966830eb6c350eb5fb75c8e26d9d953b55d15a7b4ff097d7c095be745ff crates/zinc-kernels/spv/attention.spv
//   c19234e9fd7e5126193679897e76bfa460c1afc4f50169a8ab76948ade419821 crates/zinc-kernels/spv/attention_merge.spv
//   da1e0243078ea9442f77066c050126cc5a5cc867577bd21edcf037b230b0b0d4 crates/zinc-kernels/spv/expert_down.spv
//   670ed698f76b799d25a84201b6f655a2e4aefac97dfa82cf9e3ea58ae0cc0c38 crates/zinc-kernels/spv/gate_up.spv
//   aba00da01b26f91015061434de81be8b8b774fe14387181fdda39efd57c99df5 crates/zinc-kernels/spv/gather.spv
//   4b80517bf8cf48741834b78074203e323aef749313b5a75ed12c8bb0724d0276 crates/zinc-kernels/spv/mat_vec.spv
//   6b6660855109053c1ab615e39b6f61d05b3fae2f095da74945b3f675d87e9636 crates/zinc-kernels/spv/rms_norm.spv
//   68ff408bb879198904ca66e8e4b75ff65e5cc3a8e00acbf087bb6b7b47cf573a crates/zinc-kernels/spv/rope_kv.spv
//   398c00f3c34d0e66b23fc5aa80db0a025b069f47ee602f39336a25b85c8e85a4 crates/zinc-kernels/spv/router.spv
//   3a441b62aa107d8bc0f2082a5ac3c30aeea12e111f70f43d9e3b2bb5832493b7 crates/zinc-kernels/spv/sample.spv
//   47284eea475a1b2a5aeec62c7ee11cd5a2d42bd2b871caa0f974b758cbab7344 shaders/advance.comp
//   e7311941e330981254a87b4a84e32116c8fdcac54755d1c23010fc7642fa4b9d shaders/attention.comp
//   a834d4a743897814191cc0fcdd729c98b51b2cfb0b8582d4cd55786ac10080a4 shaders/attention_merge.comp
//   e7480c74c3d137084959fdb1f585878c9d30d08b9f5ceca8d79da62b3639d618 shaders/expert_down.comp
//   796807c9d86bb564781078be69010e2f649fc91e158a1e477d2647bdb86aed80 shaders/gate_up.comp
//   fad6db47adbb130c91ea21ee30b943050358094bd3b489523db633a3987f5216 shaders/gather.comp
//   5ef118e3f9e06f71bdf6ce93b6bf34beecd1fbf8306eead0039ef41df98beb82 shaders/include/cache.glsl
//   0b8cb1aa097de89c6aeaf5c34fe3d630ca7992e002f40d32490e7f4c26cc5ac0 shaders/include/candidates.glsl
//   cfd03db0cdde2105f91c680f3ce0286e41a2d71772a6d8bc5f2622e83189a2d4 shaders/include/formats.glsl
//   9dbc94ba6f1ad39d918e9b16729ae31478f23856a42a9986f4f3cf8903be68e9 shaders/include/half.glsl
//   cb6b5f3ae316fdbf95848c9bebeb40453d87a2288252644e1349fe197127b8fe shaders/include/memory.glsl
//   a8447fb2e9a9aef30e595ec340282525975ec1be95be4d19cf007e4bafc2a0ba shaders/include/order.glsl
//   5c660484dc680df4e26d542a6063ec3a2fef2d7f41ed7f3a9740ea78b4a3b09d shaders/include/random.glsl
//   51278187291f61d65eb2e3c91c26e35f8ed90cfb7703edc52cada768caa190fa shaders/include/reduce.glsl
//   2c8c5ec4522d3895e2764b9d1f23277fe665a20a2c5cf2dbbff9d9079bc3bfd5 shaders/include/state.glsl
//   b19e4169d0127d536a7c7989083425330722bc583d5d7f6eb8cf18f868ea0880 shaders/include/workgroup.glsl
//   f7d6656a78471bece35946c30b54aa261309d030ceb98fc503914616d1df77e0 shaders/mat_vec.comp
//   f04e044873c43a642feda8faeb4e98e8220141ad624a9a77313567e2b9337f5f shaders/rms_norm.comp
//   d5b974804c41c2670a2214cd45ea79a5bb748eead0181c9cb8254d26bfa4a2c5 shaders/rope_kv.comp
//   785e192614211836e1c64522e05e9870dc5a8bf606d73214c10fb2fc4efce0aa shaders/router.comp
//   16e091fc99a5a3d2188361a6da350f3aac8732529a7af8ded0c789a58723fad6 shaders/sample.comp

use crate::kernel::KernelDef;

/// How keys and values lie in the KV cache: the values of the specialisation constants that say so.
pub mod cache {
    /// `CACHE_F32` in GLSL.
    pub const CACHE_F32: u32 = 0;
    /// `CACHE_F16` in GLSL.
    pub const CACHE_F16: u32 = 1;
}

/// The running maximum of sampling, by score and then by id, so that the result does not depend on how the vocabulary is shared out.
pub mod candidates {
    /// `NO_ID` in GLSL.
    pub const NO_ID: u32 = 0xffffffff;
    /// `CANDIDATE_BYTES` in GLSL.
    pub const CANDIDATE_BYTES: u32 = 16;
}

/// The decoders of the weight formats: the device's twin of `formats::decode`, bit for bit.
///
/// A row is read in units of 32 consecutive elements, one lane a unit. Block layouts are those of GGUF: sizes and meaning are listed
/// in `formats.rs`. The format is a specialisation constant wherever this is used, so that one branch survives.
pub mod formats {
    /// `F32` in GLSL.
    pub const F32: u32 = 0;
    /// `F16` in GLSL.
    pub const F16: u32 = 1;
    /// `BF16` in GLSL.
    pub const BF16: u32 = 2;
    /// `Q4_0` in GLSL.
    pub const Q4_0: u32 = 3;
    /// `Q4_1` in GLSL.
    pub const Q4_1: u32 = 4;
    /// `Q5_0` in GLSL.
    pub const Q5_0: u32 = 5;
    /// `Q5_1` in GLSL.
    pub const Q5_1: u32 = 6;
    /// `Q8_0` in GLSL.
    pub const Q8_0: u32 = 7;
    /// `Q4_K` in GLSL.
    pub const Q4_K: u32 = 8;
    /// `Q5_K` in GLSL.
    pub const Q5_K: u32 = 9;
    /// `Q6_K` in GLSL.
    pub const Q6_K: u32 = 10;
}

/// What varies from token to token: the state that steps hand to each other, and what a step reports to the host.
/// The Rust structs of the same names are generated from these declarations.
pub mod state {
    /// `STATUS_NO_OP` in GLSL.
    pub const STATUS_NO_OP: u32 = 0;
    /// `STATUS_FED` in GLSL.
    pub const STATUS_FED: u32 = 1;
    /// `STATUS_SAMPLED` in GLSL.
    pub const STATUS_SAMPLED: u32 = 2;
    /// `FINISH_NONE` in GLSL.
    pub const FINISH_NONE: u32 = 0;
    /// `FINISH_END_OF_GENERATION` in GLSL.
    pub const FINISH_END_OF_GENERATION: u32 = 1;
    /// `FINISH_BUDGET` in GLSL.
    pub const FINISH_BUDGET: u32 = 2;
    /// `FINISH_CONTEXT_FULL` in GLSL.
    pub const FINISH_CONTEXT_FULL: u32 = 3;
    /// `FINISH_CANCELLED` in GLSL.
    pub const FINISH_CANCELLED: u32 = 4;
    /// `FINISH_NON_FINITE` in GLSL.
    pub const FINISH_NON_FINITE: u32 = 5;
    /// One per ring slot, in host-visible memory. `advance` writes it, the host reads it once the step's timeline value is reached.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct StepReport {
        /// `sequence` in GLSL.
        pub sequence: u32,
        /// STATUS_*
        pub status: u32,
        /// sampled, or taken from the prompt
        pub token: u32,
        /// where `token` stands
        pub position: u32,
        /// FINISH_*, 0 while the sequence goes on
        pub finish: u32,
        /// of the sampled token, before temperature
        pub logit: f32,
    }
    const _: () = {
        assert!(size_of::<StepReport>() == 24);
        assert!(std::mem::offset_of!(StepReport, sequence) == 0);
        assert!(std::mem::offset_of!(StepReport, status) == 4);
        assert!(std::mem::offset_of!(StepReport, token) == 8);
        assert!(std::mem::offset_of!(StepReport, position) == 12);
        assert!(std::mem::offset_of!(StepReport, finish) == 16);
        assert!(std::mem::offset_of!(StepReport, logit) == 20);
    };
    /// One per sequence slot, in device memory. `advance` writes it, every kernel of the next step reads it.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct StepState {
        /// 0: this step and all queued behind it are no-ops
        pub live: u32,
        /// the token whose embedding this step reads
        pub token: u32,
        /// its position; KV entries below it are valid
        pub position: u32,
        /// tokens at positions below this come from the prompt
        pub prompt_length: u32,
        /// tokens that may still be sampled
        pub budget: u32,
        /// positions the KV cache holds
        pub context_length: u32,
        /// valid entries of the end-of-generation list
        pub end_token_count: u32,
        /// why the sequence stopped: FINISH_*
        pub finish: u32,
        /// `seed_low` in GLSL.
        pub seed_low: u32,
        /// `seed_high` in GLSL.
        pub seed_high: u32,
        /// 0: greedy
        pub inverse_temperature: f32,
        /// names the sequence: a cancellation carries it, so that a late one cannot stop a successor
        pub sequence: u32,
    }
    const _: () = {
        assert!(size_of::<StepState>() == 48);
        assert!(std::mem::offset_of!(StepState, live) == 0);
        assert!(std::mem::offset_of!(StepState, token) == 4);
        assert!(std::mem::offset_of!(StepState, position) == 8);
        assert!(std::mem::offset_of!(StepState, prompt_length) == 12);
        assert!(std::mem::offset_of!(StepState, budget) == 16);
        assert!(std::mem::offset_of!(StepState, context_length) == 20);
        assert!(std::mem::offset_of!(StepState, end_token_count) == 24);
        assert!(std::mem::offset_of!(StepState, finish) == 28);
        assert!(std::mem::offset_of!(StepState, seed_low) == 32);
        assert!(std::mem::offset_of!(StepState, seed_high) == 36);
        assert!(std::mem::offset_of!(StepState, inverse_temperature) == 40);
        assert!(std::mem::offset_of!(StepState, sequence) == 44);
    };
}

/// The last kernel of a step: decides the next token, moves the sequence on and reports to the host. One workgroup.
///
/// The next token is the prompt's where the prompt goes on, else the best candidate that `sample` left. End of generation, token
/// budget, end of the context, a cancellation by the host and non-finite logits clear the live flag: what is queued behind becomes
/// no-ops. A step that finds the flag cleared changes nothing and reports so.
pub mod advance {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// StepReport of this ring slot
        pub report: u64,
        /// \[context\] u32
        pub prompt: u64,
        /// \[end_token_count\] u32
        pub end_tokens: u64,
        /// u32, host-visible: the sequence that the host wants stopped
        pub cancelled: u64,
        /// \[candidate_count\] Candidate
        pub candidates: u64,
        /// 0 in a step that only feeds the prompt
        pub candidate_count: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 56);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, report) == 8);
        assert!(std::mem::offset_of!(Push, prompt) == 16);
        assert!(std::mem::offset_of!(Push, end_tokens) == 24);
        assert!(std::mem::offset_of!(Push, cancelled) == 32);
        assert!(std::mem::offset_of!(Push, candidates) == 40);
        assert!(std::mem::offset_of!(Push, candidate_count) == 48);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "advance",
        spirv: include_bytes!("../spv/advance.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Attention of one query token over the KV cache, split over the context: workgroup (split, head) reads every SPLITS-th tile of
/// positions and leaves its share unnormalised, with its maximum and its sum, for `attention_merge`. The grid does not depend on the
/// context length, so that one recording serves every token. A tile is one position a thread.
/// (Online softmax: Milakov and Gimelshein, 2018; split over the context: Dao et al., Flash-Decoding, 2023.)
pub mod attention {
    use super::KernelDef;

    /// `MAX_HEAD_SIZE` in GLSL.
    pub const MAX_HEAD_SIZE: u32 = 512;
    /// `MAX_TILE` in GLSL.
    pub const MAX_TILE: u32 = 256;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[query_heads, head_size\] f32
        pub q: u64,
        /// \[context, kv_heads * head_size\] in KEY_FORMAT
        pub key_cache: u64,
        /// \[context, kv_heads * head_size\] in VALUE_FORMAT
        pub value_cache: u64,
        /// \[query_heads, splits, head_size + 2\] f32: weighted values, maximum, sum
        pub partials: u64,
        /// `query_heads` in GLSL.
        pub query_heads: u32,
        /// `kv_heads` in GLSL.
        pub kv_heads: u32,
        /// a multiple of 4
        pub head_size: u32,
        /// `splits` in GLSL.
        pub splits: u32,
        /// 1 / sqrt(head_size)
        pub scale: f32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 64);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, q) == 8);
        assert!(std::mem::offset_of!(Push, key_cache) == 16);
        assert!(std::mem::offset_of!(Push, value_cache) == 24);
        assert!(std::mem::offset_of!(Push, partials) == 32);
        assert!(std::mem::offset_of!(Push, query_heads) == 40);
        assert!(std::mem::offset_of!(Push, kv_heads) == 44);
        assert!(std::mem::offset_of!(Push, head_size) == 48);
        assert!(std::mem::offset_of!(Push, splits) == 52);
        assert!(std::mem::offset_of!(Push, scale) == 56);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `KEY_FORMAT`.
        pub key_format: u32,
        /// Constant 3, `VALUE_FORMAT`.
        pub value_format: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 4] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.key_format), (3, self.value_format)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "attention",
        spirv: include_bytes!("../spv/attention.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Joins the shares that `attention` left for each head. One workgroup handles one head. A head with no position at all gives 0.
/// Only an empty share has a sum of 0; one that is NaN counts, so that it stays visible.
pub mod attention_merge {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[heads, splits, head_size + 2\] f32: weighted values, maximum, sum
        pub partials: u64,
        /// \[heads, head_size\] f32
        pub y: u64,
        /// `head_size` in GLSL.
        pub head_size: u32,
        /// `splits` in GLSL.
        pub splits: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 32);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, partials) == 8);
        assert!(std::mem::offset_of!(Push, y) == 16);
        assert!(std::mem::offset_of!(Push, head_size) == 24);
        assert!(std::mem::offset_of!(Push, splits) == 28);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "attention_merge",
        spirv: include_bytes!("../spv/attention_merge.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The second half of an expert layer, onto the residual stream: y += sum over slots of weight\[s\] * (D\[ids\[s\]\] h\[s\]).
/// One subgroup computes one row for all slots, in slot order.
pub mod expert_down {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[experts, rows, columns\] in FORMAT
        pub down: u64,
        /// `row_bytes` in GLSL.
        pub row_bytes: u64,
        /// \[slots\] u32
        pub ids: u64,
        /// \[slots\] f32
        pub weights: u64,
        /// \[slots, columns\] f32
        pub h: u64,
        /// \[rows\] f32
        pub y: u64,
        /// `rows` in GLSL.
        pub rows: u32,
        /// `columns` in GLSL.
        pub columns: u32,
        /// `slots` in GLSL.
        pub slots: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 72);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, down) == 8);
        assert!(std::mem::offset_of!(Push, row_bytes) == 16);
        assert!(std::mem::offset_of!(Push, ids) == 24);
        assert!(std::mem::offset_of!(Push, weights) == 32);
        assert!(std::mem::offset_of!(Push, h) == 40);
        assert!(std::mem::offset_of!(Push, y) == 48);
        assert!(std::mem::offset_of!(Push, rows) == 56);
        assert!(std::mem::offset_of!(Push, columns) == 60);
        assert!(std::mem::offset_of!(Push, slots) == 64);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `FORMAT`.
        pub format: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 3] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.format)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "expert_down",
        spirv: include_bytes!("../spv/expert_down.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// The first half of a SwiGLU feed-forward layer: y = silu(G x) * (U x), for each chosen expert, or for a dense layer.
/// One subgroup computes one row of one slot. (Shazeer: GLU Variants Improve Transformer, 2020.)
pub mod gate_up {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[experts, rows, columns\] in GATE_FORMAT
        pub gate: u64,
        /// \[experts, rows, columns\] in UP_FORMAT
        pub up: u64,
        /// `gate_row_bytes` in GLSL.
        pub gate_row_bytes: u64,
        /// `up_row_bytes` in GLSL.
        pub up_row_bytes: u64,
        /// \[slots\] u32, read where EXPERTS is 1
        pub ids: u64,
        /// \[columns\] f32
        pub x: u64,
        /// \[slots, rows\] f32
        pub y: u64,
        /// `rows` in GLSL.
        pub rows: u32,
        /// `columns` in GLSL.
        pub columns: u32,
        /// `slots` in GLSL.
        pub slots: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 80);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, gate) == 8);
        assert!(std::mem::offset_of!(Push, up) == 16);
        assert!(std::mem::offset_of!(Push, gate_row_bytes) == 24);
        assert!(std::mem::offset_of!(Push, up_row_bytes) == 32);
        assert!(std::mem::offset_of!(Push, ids) == 40);
        assert!(std::mem::offset_of!(Push, x) == 48);
        assert!(std::mem::offset_of!(Push, y) == 56);
        assert!(std::mem::offset_of!(Push, rows) == 64);
        assert!(std::mem::offset_of!(Push, columns) == 68);
        assert!(std::mem::offset_of!(Push, slots) == 72);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `GATE_FORMAT`.
        pub gate_format: u32,
        /// Constant 3, `UP_FORMAT`.
        pub up_format: u32,
        /// Constant 4, `EXPERTS`.
        pub experts: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 5] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.gate_format), (3, self.up_format), (4, self.experts)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "gate_up",
        spirv: include_bytes!("../spv/gate_up.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Embedding: decodes the row of the step's token into the residual stream. One thread decodes one unit of 32 elements.
pub mod gather {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vocabulary, columns\] in FORMAT
        pub table: u64,
        /// `row_bytes` in GLSL.
        pub row_bytes: u64,
        /// \[columns\] f32
        pub y: u64,
        /// `columns` in GLSL.
        pub columns: u32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 40);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, table) == 8);
        assert!(std::mem::offset_of!(Push, row_bytes) == 16);
        assert!(std::mem::offset_of!(Push, y) == 24);
        assert!(std::mem::offset_of!(Push, columns) == 32);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `FORMAT`.
        pub format: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 3] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.format)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "gather", spirv: include_bytes!("../spv/gather.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// y = W x, W x + bias, or y + W x. One subgroup computes one row.
pub mod mat_vec {
    use super::KernelDef;

    /// `STORE` in GLSL.
    pub const STORE: u32 = 0;
    /// `ADD_BIAS` in GLSL.
    pub const ADD_BIAS: u32 = 1;
    /// `ACCUMULATE` in GLSL.
    pub const ACCUMULATE: u32 = 2;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[rows, columns\] in FORMAT
        pub weights: u64,
        /// `row_bytes` in GLSL.
        pub row_bytes: u64,
        /// \[columns\] f32
        pub x: u64,
        /// \[rows\] f32, read by ADD_BIAS
        pub bias: u64,
        /// \[rows\] f32
        pub y: u64,
        /// `rows` in GLSL.
        pub rows: u32,
        /// `columns` in GLSL.
        pub columns: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 56);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, weights) == 8);
        assert!(std::mem::offset_of!(Push, row_bytes) == 16);
        assert!(std::mem::offset_of!(Push, x) == 24);
        assert!(std::mem::offset_of!(Push, bias) == 32);
        assert!(std::mem::offset_of!(Push, y) == 40);
        assert!(std::mem::offset_of!(Push, rows) == 48);
        assert!(std::mem::offset_of!(Push, columns) == 52);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `FORMAT`.
        pub format: u32,
        /// Constant 3, `EPILOGUE`.
        pub epilogue: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 4] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.format), (3, self.epilogue)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "mat_vec",
        spirv: include_bytes!("../spv/mat_vec.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// y = x / sqrt(mean(x^2) + epsilon) * weight, by one workgroup. (Zhang and Sennrich: Root Mean Square Layer Normalization, 2019.)
pub mod rms_norm {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[columns\] f32
        pub x: u64,
        /// \[columns\] f32
        pub weight: u64,
        /// \[columns\] f32
        pub y: u64,
        /// `columns` in GLSL.
        pub columns: u32,
        /// `epsilon` in GLSL.
        pub epsilon: f32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 40);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, x) == 8);
        assert!(std::mem::offset_of!(Push, weight) == 16);
        assert!(std::mem::offset_of!(Push, y) == 24);
        assert!(std::mem::offset_of!(Push, columns) == 32);
        assert!(std::mem::offset_of!(Push, epsilon) == 36);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "rms_norm",
        spirv: include_bytes!("../spv/rms_norm.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Prepares attention for one token: normalises each query and key head (where the model does), rotates both by the token's
/// position, and appends the key and the value to the cache. One workgroup handles one head.
///
/// Rotary embedding: Su et al., RoFormer, 2021. The cosines and sines come from a table made by the host, because the precision that
/// Vulkan promises for cos and sin is too low for long contexts.
pub mod rope_kv {
    use super::KernelDef;

    /// `HALVES` in GLSL.
    pub const HALVES: u32 = 0;
    /// `INTERLEAVED` in GLSL.
    pub const INTERLEAVED: u32 = 1;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[query_heads, head_size\] f32, rotated in place
        pub q: u64,
        /// \[kv_heads, head_size\] f32
        pub k: u64,
        /// \[kv_heads, head_size\] f32
        pub v: u64,
        /// \[head_size\] f32, read by NORMALISE
        pub q_norm: u64,
        /// \[head_size\] f32, read by NORMALISE
        pub k_norm: u64,
        /// \[context, rotated / 2\] pairs (cos, sin) f32
        pub rotation: u64,
        /// \[context, kv_heads * head_size\] in KEY_FORMAT
        pub key_cache: u64,
        /// \[context, kv_heads * head_size\] in VALUE_FORMAT
        pub value_cache: u64,
        /// `query_heads` in GLSL.
        pub query_heads: u32,
        /// `kv_heads` in GLSL.
        pub kv_heads: u32,
        /// at most 512
        pub head_size: u32,
        /// leading elements of a head that rotate
        pub rotated: u32,
        /// `epsilon` in GLSL.
        pub epsilon: f32,
        /// Fills the struct to its alignment.
        pub padding: [u32; 1],
    }
    const _: () = {
        assert!(size_of::<Push>() == 96);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, q) == 8);
        assert!(std::mem::offset_of!(Push, k) == 16);
        assert!(std::mem::offset_of!(Push, v) == 24);
        assert!(std::mem::offset_of!(Push, q_norm) == 32);
        assert!(std::mem::offset_of!(Push, k_norm) == 40);
        assert!(std::mem::offset_of!(Push, rotation) == 48);
        assert!(std::mem::offset_of!(Push, key_cache) == 56);
        assert!(std::mem::offset_of!(Push, value_cache) == 64);
        assert!(std::mem::offset_of!(Push, query_heads) == 72);
        assert!(std::mem::offset_of!(Push, kv_heads) == 76);
        assert!(std::mem::offset_of!(Push, head_size) == 80);
        assert!(std::mem::offset_of!(Push, rotated) == 84);
        assert!(std::mem::offset_of!(Push, epsilon) == 88);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `PAIRING`.
        pub pairing: u32,
        /// Constant 3, `NORMALISE`.
        pub normalise: u32,
        /// Constant 4, `KEY_FORMAT`.
        pub key_format: u32,
        /// Constant 5, `VALUE_FORMAT`.
        pub value_format: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 6] {
            [
                (0, self.workgroup),
                (1, self.subgroup),
                (2, self.pairing),
                (3, self.normalise),
                (4, self.key_format),
                (5, self.value_format),
            ]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef = KernelDef {
        name: "rope_kv",
        spirv: include_bytes!("../spv/rope_kv.spv"),
        push_bytes: size_of::<Push>() as u32,
    };
}

/// Chooses the experts of a token: the highest `used` of the router's logits, ties to the lower index, NaN as minus infinity, and their
/// weights: the softmax over all experts, or over the chosen ones only (which equals renormalising the former). One subgroup.
pub mod router {
    use super::KernelDef;

    /// `SOFTMAX_OF_CHOSEN` in GLSL.
    pub const SOFTMAX_OF_CHOSEN: u32 = 0;
    /// `SOFTMAX_OF_ALL` in GLSL.
    pub const SOFTMAX_OF_ALL: u32 = 1;
    /// `MAX_EXPERTS` in GLSL.
    pub const MAX_EXPERTS: u32 = 1024;
    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[experts\] f32
        pub logits: u64,
        /// \[used\] u32
        pub ids: u64,
        /// \[used\] f32
        pub weights: u64,
        /// at most 1,024
        pub experts: u32,
        /// `used` in GLSL.
        pub used: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 40);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, logits) == 8);
        assert!(std::mem::offset_of!(Push, ids) == 16);
        assert!(std::mem::offset_of!(Push, weights) == 24);
        assert!(std::mem::offset_of!(Push, experts) == 32);
        assert!(std::mem::offset_of!(Push, used) == 36);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
        /// Constant 2, `WEIGHTING`.
        pub weighting: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 3] {
            [(0, self.workgroup), (1, self.subgroup), (2, self.weighting)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "router", spirv: include_bytes!("../spv/router.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// First half of sampling: each workgroup finds the best of its share of the vocabulary, the lower id where two are equal.
/// Greedy compares logits. Otherwise a Gumbel variate is added to logit / temperature: the maximum of these is distributed as the
/// softmax (Gumbel, 1954; Maddison et al., A* Sampling, 2014). The variate depends on seed, position and id alone.
/// The score's arithmetic is exact, so that the host draws the same token from the same logits.
pub mod sample {
    use super::KernelDef;

    /// Push constants.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Push {
        /// `state` in GLSL.
        pub state: u64,
        /// \[vocabulary\] f32
        pub logits: u64,
        /// \[workgroups\] Candidate
        pub candidates: u64,
        /// `vocabulary` in GLSL.
        pub vocabulary: u32,
        /// ids a workgroup looks at, a multiple of 4
        pub share: u32,
    }
    const _: () = {
        assert!(size_of::<Push>() == 32);
        assert!(std::mem::offset_of!(Push, state) == 0);
        assert!(std::mem::offset_of!(Push, logits) == 8);
        assert!(std::mem::offset_of!(Push, candidates) == 16);
        assert!(std::mem::offset_of!(Push, vocabulary) == 24);
        assert!(std::mem::offset_of!(Push, share) == 28);
    };
    /// Specialisation constants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Constants {
        /// Constant 0, `WORKGROUP`.
        pub workgroup: u32,
        /// Constant 1, `SUBGROUP`.
        pub subgroup: u32,
    }
    impl Constants {
        /// Ids and values.
        #[must_use]
        pub fn values(self) -> [(u32, u32); 2] {
            [(0, self.workgroup), (1, self.subgroup)]
        }
    }
    /// The kernel.
    pub static KERNEL: KernelDef =
        KernelDef { name: "sample", spirv: include_bytes!("../spv/sample.spv"), push_bytes: size_of::<Push>() as u32 };
}

/// Every kernel, by name.
pub static KERNELS: [&KernelDef; 11] = [
    &advance::KERNEL,
    &attention::KERNEL,
    &attention_merge::KERNEL,
    &expert_down::KERNEL,
    &gate_up::KERNEL,
    &gather::KERNEL,
    &mat_vec::KERNEL,
    &rms_norm::KERNEL,
    &rope_kv::KERNEL,
    &router::KERNEL,
    &sample::KERNEL,
];
