//! The error type of this crate.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::config::RopeScalingKind;

/// A result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller of this crate cannot foresee: a file that is broken or asks for something that zinc cannot do, a device that fails or has too
/// little memory.
///
/// Byte offsets count from the start of the file that is named by the surrounding [`Error::InFile`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system could not open, read or write a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Something is wrong in a file.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<Error>,
    },

    // The GGUF container.
    /// The file does not start as a GGUF file does.
    #[error("not a GGUF file: it starts with the bytes {found:02x?} instead of \"GGUF\"")]
    NotGguf {
        /// The first bytes, four at most.
        found: Vec<u8>,
    },
    /// The numbers of the file are big endian.
    #[error("GGUF version {version} in big-endian byte order is not supported: convert the file to little endian")]
    BigEndian {
        /// The version, read in big-endian order.
        version: u32,
    },
    /// A version of the container that zinc does not read.
    #[error("GGUF version {version} is not supported: versions 2 and 3 are")]
    Version {
        /// The version.
        version: u32,
    },
    /// The file ends before what it announces.
    #[error("{what} at byte {offset}: {need} bytes are needed, but {left} are left: the file is cut short or damaged")]
    Truncated {
        /// Where the incomplete part starts.
        offset: u64,
        /// Which part is incomplete.
        what: &'static str,
        /// The least number of bytes that it needs.
        need: u64,
        /// Bytes from `offset` to the end of the file.
        left: u64,
    },
    /// A length that no sound file has.
    #[error("{what} at byte {offset} has the length {length}, above the limit of {limit}")]
    TooLong {
        /// Where the length is.
        offset: u64,
        /// What has the length.
        what: &'static str,
        /// The length.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// Text that is not UTF-8.
    #[error("{what} at byte {offset} is not UTF-8")]
    NotUtf8 {
        /// Where the text starts.
        offset: u64,
        /// What should be text.
        what: &'static str,
    },
    /// A metadata value type that does not exist.
    #[error("the value of '{}' at byte {offset} has the unknown type {id}", Escaped(key))]
    ValueType {
        /// Where the type is.
        offset: u64,
        /// The metadata key.
        key: String,
        /// The type's number.
        id: u32,
    },
    /// Arrays of arrays, deeper than any file has a reason for.
    #[error("the value of '{}' has arrays within arrays at byte {offset}, more than {limit} deep", Escaped(key))]
    NestedArray {
        /// Where the type of the array that is one too deep is.
        offset: u64,
        /// The metadata key.
        key: String,
        /// How many arrays may lie within each other.
        limit: usize,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("the value of '{}' at byte {offset} is a boolean, but its byte is {byte}", Escaped(key))]
    NotBool {
        /// Where the byte is.
        offset: u64,
        /// The metadata key.
        key: String,
        /// The byte.
        byte: u8,
    },
    /// A metadata key that occurs twice.
    #[error("the metadata key '{}' is there again at byte {offset}", Escaped(key))]
    DuplicateKey {
        /// Where the second one starts.
        offset: u64,
        /// The key.
        key: String,
    },
    /// A tensor name that occurs twice, in one file or in the parts of a split model.
    #[error("there are two tensors named '{}'", Escaped(name))]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// More dimensions than tensors have.
    #[error("tensor '{}' at byte {offset} has {dimensions} dimensions, above the limit of 4", Escaped(name))]
    Dimensions {
        /// Where the count is.
        offset: u64,
        /// The tensor.
        name: String,
        /// The count.
        dimensions: u32,
    },
    /// A tensor whose size in bytes does not fit 64 bits.
    #[error("tensor '{}' at byte {offset} is too large: its dimensions are {shape:?}", Escaped(name))]
    TensorSize {
        /// Where the tensor's description starts.
        offset: u64,
        /// The tensor.
        name: String,
        /// Its dimensions, fastest first.
        shape: Vec<u64>,
    },
    /// A storage format that does not exist.
    #[error("tensor '{}' at byte {offset} has the unknown format {id}", Escaped(name))]
    TensorFormat {
        /// Where the format is.
        offset: u64,
        /// The tensor.
        name: String,
        /// The format's number.
        id: u32,
    },
    /// Rows that end inside a block.
    #[error(
        "tensor '{}' has rows of {columns} elements, which are not whole blocks of {block} ({format})",
        Escaped(name)
    )]
    PartialBlock {
        /// The tensor.
        name: String,
        /// Elements of a row.
        columns: u64,
        /// The name of the format.
        format: &'static str,
        /// Elements of a block.
        block: u64,
    },
    /// Tensor data that does not start at a multiple of the alignment.
    #[error(
        "tensor '{}' starts at {offset} in the data, which is no multiple of the alignment {alignment}",
        Escaped(name)
    )]
    Misaligned {
        /// The tensor.
        name: String,
        /// Offset in the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// Tensor data that ends after the file.
    #[error(
        "tensor '{}' ends at byte {end}, but the file ends at byte {file_bytes}: it is cut short or damaged",
        Escaped(name)
    )]
    TensorOutside {
        /// The tensor.
        name: String,
        /// Where its data ends; `u64::MAX` if that does not fit.
        end: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// Two tensors that share bytes.
    #[error(
        "tensor '{}' starts at byte {start}, inside of tensor '{}', which ends at byte {end}",
        Escaped(second),
        Escaped(first)
    )]
    Overlap {
        /// The tensor that starts first.
        first: String,
        /// Where it ends.
        end: u64,
        /// The other one.
        second: String,
        /// Where that one starts.
        start: u64,
    },
    /// A file whose metadata say that it is one of several, but whose name does not say which one.
    #[error("the file is one of {parts} parts, but its name does not end in -00001-of-{parts:05}.gguf or alike")]
    PartName {
        /// Number of parts.
        parts: u32,
    },
    /// A part of a split file that is not beside the others.
    #[error("part {part} of {parts} is missing: there is no {}", path.display())]
    MissingPart {
        /// The part, counted from 1.
        part: u32,
        /// Number of parts.
        parts: u32,
        /// Where it should be.
        path: PathBuf,
    },
    /// A part whose metadata do not agree with its name or with the other parts.
    #[error("{key} should be {expected} here, but it is {found}: the parts of the file do not belong together")]
    PartMismatch {
        /// The metadata key.
        key: &'static str,
        /// The value that the file's name and the first part ask for.
        expected: u64,
        /// The value found.
        found: u64,
    },

    // Metadata.
    /// A key that is required.
    #[error("the metadata key '{key}' is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A value of another type than the key's.
    #[error("the metadata key '{key}' should be {expected}, but it is {found}")]
    WrongType {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// What the file has.
        found: String,
    },
    /// A value that is out of range or makes no sense.
    #[error("the metadata key '{key}' is {found}: it must be {expected}")]
    BadValue {
        /// The key.
        key: String,
        /// The value.
        found: String,
        /// What it must be.
        expected: String,
    },

    // The model.
    /// A model of a family that zinc does not support.
    #[error("the architecture '{}' is not supported: {} are", Escaped(found), supported.join(", "))]
    Architecture {
        /// The file's architecture.
        found: String,
        /// The ones that are supported.
        supported: Vec<&'static str>,
    },
    /// A kind of rope scaling that zinc does not support.
    #[error("rope scaling of type '{}' is not supported: none, linear and yarn are", Escaped(found))]
    RopeScaling {
        /// The file's type.
        found: String,
    },
    /// A number that a caller gave for the rope scaling, out of range or in conflict with another one.
    #[error("the {what} of the rope scaling is {found}: it must be {expected}")]
    RopeNumber {
        /// Which number.
        what: &'static str,
        /// Its value.
        found: f32,
        /// What it must be.
        expected: String,
    },
    /// A number that a caller gave, where the scaling in force has no use for it.
    #[error("{what} was given for the rope scaling, but scaling of type '{kind}' is in force, which has none")]
    RopeNumberUnused {
        /// Which number, with its article.
        what: &'static str,
        /// The scaling in force.
        kind: RopeScalingKind,
    },
    /// Rope scaling that a caller asked for without a factor, of a file that has none.
    #[error("rope scaling of type '{kind}' was asked for without a factor, and the file has none")]
    RopeFactorMissing {
        /// The scaling that was asked for.
        kind: RopeScalingKind,
    },
    /// Drafts by multi-token prediction that a caller asked for, of a file without a block for it.
    #[error("the file has no block for multi-token prediction ({key}), by which tokens could be drafted")]
    MtpMissing {
        /// The key that counts such blocks.
        key: String,
    },
    /// A tensor that the model needs and the file does not have.
    #[error("the tensor '{name}' is missing; it should have the shape {expected:?}")]
    MissingTensor {
        /// The tensor.
        name: String,
        /// Dimensions, fastest first.
        expected: Vec<u64>,
    },
    /// A tensor that the forward pass would ignore, so that the results would not be the model's.
    #[error("the tensor '{}' is no part of a {architecture} model as zinc knows it", Escaped(name))]
    UnexpectedTensor {
        /// The tensor.
        name: String,
        /// The file's architecture.
        architecture: &'static str,
    },
    /// A tensor of another shape than the metadata say.
    #[error("the tensor '{name}' should have the shape {expected:?}, but it has {found:?}")]
    TensorShape {
        /// The tensor.
        name: String,
        /// Dimensions by the metadata, fastest first.
        expected: Vec<u64>,
        /// Dimensions in the file.
        found: Vec<u64>,
    },
    /// A tensor in a format that no kernel reads.
    #[error("the tensor '{name}' has the format {format}, which is not supported here: {} are", supported.join(", "))]
    UnsupportedFormat {
        /// The tensor.
        name: String,
        /// The format.
        format: &'static str,
        /// The formats that are supported for this tensor.
        supported: Vec<&'static str>,
    },

    // Text.
    /// A kind of vocabulary that is not supported.
    #[error(
        "the tokenizer model '{}' is not supported: gpt2 (byte-level BPE) and llama (SentencePiece) are",
        Escaped(found)
    )]
    TokenizerModel {
        /// The file's `tokenizer.ggml.model`.
        found: String,
    },
    /// A way of cutting text into words that is not supported.
    #[error("the pre-tokenizer '{}' is not supported: {} are", Escaped(found), supported.join(", "))]
    PreTokenizer {
        /// The file's `tokenizer.ggml.pre`.
        found: String,
        /// The ones that are supported.
        supported: Vec<&'static str>,
    },
    /// Text that the vocabulary cannot represent.
    #[error("the vocabulary has no token for the byte {byte:#04x}")]
    NoByteToken {
        /// The byte.
        byte: u8,
    },
    /// The tokenizer failed.
    #[error("the tokenizer failed: {0}")]
    Tokenizer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The chat template does not compile, fails, or refuses the messages.
    #[error("chat template{}: {message}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Template {
        /// The line of the template, counted from 1.
        line: Option<usize>,
        /// What went wrong.
        message: String,
    },
    /// A size that the kernels cannot handle.
    #[error("{what} is {value}, which no kernel handles: {expected} is supported")]
    KernelLimit {
        /// The size.
        what: &'static str,
        /// Its value.
        value: u32,
        /// What is supported.
        expected: String,
    },
    /// Rows that are not whole units of the kernels.
    #[error("the rows of tensor '{name}' have {columns} elements: a multiple of {unit} is supported")]
    RowLength {
        /// The tensor.
        name: String,
        /// Elements of a row.
        columns: u32,
        /// What the kernels read at a time.
        unit: u32,
    },
    /// A factor on the experts' weights other than 1.
    #[error("the experts' weights are scaled by {found}, which is not supported: only 1 is")]
    ExpertScale {
        /// The factor.
        found: f32,
    },

    // The device.
    /// A model and its cache that need more memory than there is.
    #[error(
        "the model needs {:.2} GiB of device memory ({:.2} GiB of weights, {:.2} GiB of KV cache for {context} tokens), but {:.2} GiB are \
         available: {}",
        gib(*need),
        gib(*weights),
        gib(*kv_cache),
        gib(*available),
        advice(*largest_context)
    )]
    DoesNotFit {
        /// Bytes needed.
        need: u64,
        /// Bytes available.
        available: u64,
        /// Bytes of weights.
        weights: u64,
        /// Bytes of the KV cache.
        kv_cache: u64,
        /// Positions of the cache.
        context: u32,
        /// The most positions that would fit; 0 if none would.
        largest_context: u32,
    },
    /// A tensor that no single allocation can hold.
    #[error(
        "tensor number {index} has {bytes} bytes ({:.2} GiB), above the device's limit of {limit} bytes for one allocation",
        gib(*bytes)
    )]
    TensorTooLarge {
        /// Its place among the model's tensors.
        index: usize,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Activations that take more bytes than the kernels' 32-bit offsets can reach.
    #[error(
        "the activations of steps of {rows} rows have {bytes} bytes, above the limit of {limit}: ask for fewer rows"
    )]
    ActivationsTooLarge {
        /// Their size.
        bytes: u64,
        /// Rows of a step.
        rows: u32,
        /// The limit.
        limit: u64,
    },
    /// What the device or its driver says.
    #[cfg(feature = "vk")]
    #[error(transparent)]
    Device(#[from] zinc_vk::Error),
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn advice(largest_context: u32) -> String {
    match largest_context {
        0 => "use a smaller model or a device with more memory".to_owned(),
        context => format!("a context of at most {context} tokens would fit"),
    }
}

/// Text from a file in an error message: control characters escaped and long text cut.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LIMIT: usize = 100;
        for c in self.0.chars().take(LIMIT) {
            write!(f, "{}", c.escape_debug())?;
        }
        let more = self.0.chars().skip(LIMIT).count();
        if more > 0 {
            write!(f, "… ({more} more characters)")?;
        }
        Ok(())
    }
}
