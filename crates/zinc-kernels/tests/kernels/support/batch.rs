//! Steps of several tokens against steps of one, bit for bit: whatever a kernel does for a token of a batch, it must do as if the token were
//! alone.

use bytemuck::Pod;
use zinc_kernels::generated::state::StepState;
use zinc_kernels::ops::{ActFormat, Batch, Matrix};
use zinc_kernels::reference::Q14;
use zinc_kernels::{Dispatch, Format};

use super::arena::{Arena, GAP};
use super::data::{Random, Scales, device_rows, weights};

/// Tokens that a launch is for, and how many of them the step has.
const CASES: [(u32, u32); 5] = [(3, 3), (8, 8), (8, 5), (8, 1), (3, 0)];

/// The arrays of a step, one of each activation for each token.
pub(crate) struct Builder {
    pub(crate) arena: Arena,
    pub(crate) random: Random,
    tokens: u32,
    stride: u32,
}

/// How a launch sees the arrays: from the first token, for all of them, or from one token, for it alone.
pub(crate) struct View {
    pub(crate) state: u64,
    pub(crate) batch: Batch,
    offset: u64,
}

impl View {
    /// Where the launch finds an activation.
    pub(crate) fn own(&self, activation: u64) -> u64 {
        activation + self.offset
    }
}

/// How activations are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Only read.
    Input,
    /// Read, perhaps, and written.
    InOut,
    /// For the kernel's own notes.
    Scratch,
}

impl Builder {
    fn new(name: &str, tokens: u32, stride: u32) -> Self {
        Self { arena: Arena::new(), random: Random::new(name), tokens, stride }
    }

    /// An activation: what `of_token` makes for each token. Nothing may touch what lies between two tokens'.
    pub(crate) fn activation<T: Pod>(&mut self, usage: Use, mut of_token: impl FnMut(&mut Random) -> Vec<T>) -> u64 {
        let mut bytes: Vec<u8> = Vec::new();
        for token in 0..self.tokens {
            bytes.resize((token * self.stride) as usize, GAP);
            bytes.extend_from_slice(bytemuck::cast_slice(&of_token(&mut self.random)));
            assert!(bytes.len() <= ((token + 1) * self.stride) as usize, "the stride of {} is too short", self.stride);
        }
        match usage {
            Use::Input => self.arena.input(&bytes).address,
            Use::InOut => self.arena.in_out(&bytes).address,
            Use::Scratch => self.arena.scratch(&bytes).address,
        }
    }

    /// An activation of random numbers.
    pub(crate) fn vector(&mut self, usage: Use, len: usize) -> u64 {
        self.activation(usage, |random| random.vector(len, 1.0))
    }

    /// An activation of random numbers, rounded for [`ActFormat::Q14`].
    pub(crate) fn operand(&mut self, act: ActFormat, len: usize) -> u64 {
        self.activation(Use::Input, |random| {
            let x = random.vector(len, 1.0);
            match act {
                ActFormat::F32 => bytemuck::cast_slice(&x).to_vec(),
                ActFormat::Q14 => Q14::new(&x).bytes(),
            }
        })
    }

    /// An activation that is written, of so many bytes that were never written.
    pub(crate) fn output(&mut self, bytes: usize) -> u64 {
        self.activation(Use::InOut, |_| vec![GAP; bytes])
    }

    /// A stack of `matrices` random ones.
    pub(crate) fn matrix(&mut self, format: Format, matrices: usize, rows: usize, columns: usize) -> Matrix {
        let bytes = weights(&mut self.random, format, matrices * rows, columns, Scales::Sane);
        let address = self.arena.input(&device_rows(format, columns, &bytes)).address;
        Matrix { address, format, rows: rows as u32, columns: columns as u32 }
    }

    /// The same numbers for all tokens: a bias, the weights of a norm.
    pub(crate) fn shared(&mut self, len: usize) -> u64 {
        self.arena.input(&self.random.vector(len, 1.0)).address
    }
}

/// Compares a step of several tokens with steps of one. `state_of` is the state of a step of the given token alone; `make` makes the arrays of
/// all tokens, `stride` bytes apart, and says how an operation is launched on them.
pub(crate) fn check<L: Fn(&View) -> Dispatch>(
    name: &str,
    stride: u32,
    state_of: impl Fn(u32) -> StepState,
    make: impl Fn(&mut Builder) -> L,
) {
    for (tokens, live) in CASES {
        let name = format!("{name}, {live} of {tokens} tokens");
        let run = |batches: &[(u32, StepState, Batch)]| {
            let mut builder = Builder::new(&name, tokens, stride);
            let launch = make(&mut builder);
            let launches: Vec<Dispatch> = batches
                .iter()
                .map(|&(first, state, batch)| {
                    let offset = u64::from(first) * u64::from(stride);
                    launch(&View { state: builder.arena.state(state), batch, offset })
                })
                .collect();
            let before = builder.arena.outputs();
            builder.arena.run(&launches);
            (before, builder.arena.outputs())
        };
        let (_, together) = run(&[(0, StepState { live, ..state_of(0) }, Batch { tokens, stride })]);
        let alone: Vec<_> = (0..live).map(|token| (token, state_of(token), Batch::ONE)).collect();
        let (before, one_by_one) = run(&alone);
        for (output, (found, expected)) in together.iter().zip(&one_by_one).enumerate() {
            let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
            if let Some(byte) = differs {
                panic!("{name}: output {output} differs from byte {byte}, of token {}", byte / stride as usize);
            }
        }
        assert_eq!(one_by_one != before, live > 0, "{name}: something was written");
    }
}
