//! Makes the weights on all cores and writes them in order, with a bounded number of them in memory.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;
use rayon::prelude::*;
use zinc_kernels::Format;
use zinc_model::ModelConfig;
use zinc_model::config::{Presence, expected_tensors, mtp_tensors};
use zinc_model::gguf::{TensorInfo, Value, Writer};

use super::blocks::{self, Numbers};
use super::{Mix, Preset, vocabulary};

/// About how many bytes are made as one piece.
const PIECE_BYTES: u64 = 1 << 20;

/// How many pieces are made at once, for each thread.
const PIECES_PER_THREAD: usize = 2;

/// The version of the quantised formats, which files name.
const QUANTISATION_VERSION: u32 = 2;

/// A model file that can be written: its config, its header, and the seed of its weights.
pub(crate) struct Synthesis {
    config: ModelConfig,
    writer: Writer,
    seed: u64,
}

/// A number of consecutive blocks of one tensor, which one thread makes.
#[derive(Clone, Copy)]
struct Piece {
    format: Format,
    numbers: Numbers,
    bytes: usize,
    seed: u64,
}

impl Synthesis {
    /// The file of a preset, with `layers` layers if that is given.
    pub(crate) fn new(preset: Preset, mix: Mix, layers: Option<u32>, seed: u64) -> Self {
        let config = preset.config(layers);
        let mut writer = Writer::new();
        preset.set_metadata(layers, &mut writer);
        writer
            .set("general.name", Value::String(format!("{} with random weights", preset.name())))
            .set("general.file_type", mix.file_type())
            .set("general.quantization_version", QUANTISATION_VERSION);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        vocabulary::set_metadata(config.n_vocab, preset.pre_tokenizer(), &mut random, &mut writer);
        for tensor in expected_tensors(&config).into_iter().chain(mtp_tensors(&config)) {
            // Blocks that draft tokens have a norm of their own in most files, although they need not.
            if tensor.presence == Presence::Required || tensor.name.ends_with("shared_head_norm.weight") {
                writer.tensor(&tensor.name, &tensor.shape, mix.format(&tensor, &config));
            }
        }
        Self { config, writer, seed }
    }

    /// The configuration of the model.
    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Bytes of all tensors.
    pub(crate) fn tensor_bytes(&self) -> u64 {
        self.writer.tensors().iter().map(|tensor| tensor.bytes).sum()
    }

    /// Elements of all tensors.
    pub(crate) fn parameters(&self) -> u64 {
        self.writer.tensors().iter().map(TensorInfo::elements).sum()
    }

    /// Writes the file. `progress` is called with the number of bytes of tensors written so far, and can end the writing with an error.
    ///
    /// # Errors
    /// What the operating system says of the file, or the error of `progress`. What was written by then stays.
    pub(crate) fn write(&self, path: &Path, mut progress: impl FnMut(u64) -> io::Result<()>) -> io::Result<()> {
        let mut file = fs::File::create(path)?;
        let batch = PIECES_PER_THREAD * rayon::current_num_threads();
        // One batch is written while the next waits and the one after it is made.
        let (send, receive) = sync_channel(1);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut pieces = self.pieces();
                loop {
                    let batch: Vec<Piece> = pieces.by_ref().take(batch).collect();
                    let made: Vec<Vec<u8>> = batch.par_iter().map(Piece::make).collect();
                    // If nobody receives the piece, the writing has failed and reports it.
                    if made.is_empty() || send.send(made).is_err() {
                        break;
                    }
                }
            });
            let mut made = Made { receive, batch: Vec::new().into_iter() };
            let mut done = 0;
            self.writer.write_to(&mut file, |tensor, out| {
                let end = done + tensor.bytes;
                while done < end {
                    let piece = made.next();
                    out.write_all(&piece)?;
                    done += piece.len() as u64;
                    progress(done)?;
                }
                Ok(())
            })
        })
    }

    /// The pieces of all weights, in order.
    fn pieces(&self) -> impl Iterator<Item = Piece> {
        let tensors = self.writer.tensors().iter().zip(0u64..);
        tensors.flat_map(|(tensor, index)| {
            let format = tensor.format.to_kernel().expect("mixes consist of formats that kernels read");
            let block = format.block_bytes() as u64;
            let whole = PIECE_BYTES / block * block;
            let numbers = numbers(tensor);
            let seed = self.seed;
            (0..tensor.bytes.div_ceil(whole)).map(move |piece| Piece {
                format,
                numbers,
                // It is at most the size of a piece.
                bytes: (tensor.bytes - piece * whole).min(whole) as usize,
                // Tensors have fewer than 2^32 pieces, so no two pieces have one seed; the generator mixes it well.
                seed: seed.wrapping_add((index + 1) << 32 | piece),
            })
        })
    }
}

impl Piece {
    fn make(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        blocks::fill(self.format, self.numbers, &mut Xoshiro256PlusPlus::seed_from_u64(self.seed), &mut bytes);
        bytes
    }
}

/// The distribution of a tensor's numbers. Biases are small beside the products that they are added to, whose deviation is near 1, and sinks are like
/// scores. Memories of delta nets keep about 0.9 to 0.9999 of themselves from one token to the next: the product of `ssm_a` and the softplus of a product to
/// which `ssm_dt.bias` is added is the logarithm of that. Matrices, and the row of a router that opens the shared expert, keep the magnitude of what they
/// are multiplied with: a product has as many terms as there are columns. Other vectors are norms.
fn numbers(tensor: &TensorInfo) -> Numbers {
    let is = |part: &str| tensor.name.rsplit_once(part).is_some_and(|(_, rest)| rest.is_empty());
    match tensor.shape[..] {
        _ if is(".ssm_a") => Numbers::Within { middle: -0.05, reach: 0.045 },
        _ if is(".ssm_dt.bias") => Numbers::Within { middle: -1.0, reach: 2.0 },
        _ if is(".bias") => Numbers::Spread(0.1),
        _ if is(".attn_sinks.weight") => Numbers::Spread(1.0),
        [columns] if is(".ffn_gate_inp_shexp.weight") => Numbers::keeping_magnitude(columns),
        [columns, _, ..] => Numbers::keeping_magnitude(columns),
        _ => Numbers::Within { middle: 1.0, reach: 0.1 },
    }
}

/// Reads the pieces as they come from the other threads.
struct Made {
    receive: Receiver<Vec<Vec<u8>>>,
    batch: std::vec::IntoIter<Vec<u8>>,
}

impl Made {
    fn next(&mut self) -> Vec<u8> {
        loop {
            if let Some(piece) = self.batch.next() {
                return piece;
            }
            self.batch = self.receive.recv().expect("pieces are made until the last tensor is whole").into_iter();
        }
    }
}
