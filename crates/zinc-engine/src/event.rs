//! What an opening model tells while it is opened: how far it is, and what a user should know.

use std::fmt;

use zinc_vk::{CacheFault, Notice};

/// Something that happens while a model is opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenEvent {
    /// Weights were read and uploaded.
    Weights {
        /// Bytes of the file uploaded so far.
        done: u64,
        /// Bytes of the file in all.
        total: u64,
    },
    /// Pipelines were built.
    Pipelines {
        /// Pipelines built so far.
        done: u64,
        /// Pipelines in all.
        total: u64,
    },
    /// Something that a user should be told. It is no failure.
    Note(Note),
}

/// Something that a user should be told of how a model is opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note {
    /// The context that was asked for is larger than that of the model's training, beyond which answers become poor.
    ContextBeyondTraining {
        /// Tokens of context that were asked for.
        asked: u32,
        /// Tokens of context that the model was trained for.
        trained: u32,
    },
    /// The file carries a model of vision, too, which zinc does not run: it answers about text alone.
    VisionIgnored {
        /// Tensors of that model.
        tensors: usize,
    },
    /// The file carries blocks that draft tokens (multi-token prediction), which were not asked for and are left out: the answers are the same without them.
    MtpIgnored {
        /// Tensors of those blocks.
        tensors: usize,
    },
    /// Something about the choice of the device.
    Device(Notice),
    /// The file of compiled pipelines was not read, so that this start builds them, or not written, so that the next one does.
    PipelineCache(CacheFault),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContextBeyondTraining { asked, trained } => {
                write!(f, "{asked} tokens are more context than the {trained} that the model was trained for")
            }
            Self::VisionIgnored { tensors } => {
                write!(f, "the file has {tensors} tensors of a model of vision, which are not used: text alone is read")
            }
            Self::MtpIgnored { tensors } => {
                write!(
                    f,
                    "the file has {tensors} tensors of multi-token prediction, which are not used: drafts by them were not asked for"
                )
            }
            Self::Device(notice) => notice.fmt(f),
            Self::PipelineCache(fault) => fault.fmt(f),
        }
    }
}
