//! GGUF files: each is refused, or all that is read from it can be used.

use std::fs::OpenOptions;
use std::io::{Seek, Write};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::json;
use tempfile::NamedTempFile;
use zinc_model::gguf::File;
use zinc_model::tokenizer::Tokenizer;
use zinc_model::{ChatInput, ChatTemplate, Model, Special};

/// Zeros behind the bytes, in which tensors have their data: a file without them would be refused as cut off.
pub const ZEROS: u64 = 4 << 20;

/// The file that each input is written to.
static PLACE: LazyLock<Mutex<NamedTempFile>> =
    LazyLock::new(|| Mutex::new(NamedTempFile::new().expect("a temporary file")));

/// The bytes are the beginning of the file.
///
/// # Panics
/// If the data of a tensor are not as long as the file says, and if the temporary file cannot be written.
pub fn check(data: &[u8]) {
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut out = OpenOptions::new().write(true).truncate(true).open(place.path()).expect("the temporary file");
    out.write_all(data).expect("room for the temporary file");
    let end = out.stream_position().expect("the length of the temporary file");
    out.set_len(end + ZEROS).expect("room for the temporary file");
    let Ok(file) = File::open(place.path()) else { return };
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes, "{tensor:?}");
    }
    let _ = Model::open(place.path());
    let tokenizer = Tokenizer::from_gguf(&file);
    if let Ok(tokenizer) = &tokenizer {
        for special in [Special::Plain, Special::Parse] {
            if let Ok(ids) = tokenizer.encode_prompt("Hello <s> wörld 123\n", special) {
                let _ = tokenizer.decode(&ids);
            }
        }
    }
    if let (Ok(template), Ok(tokenizer)) = (ChatTemplate::from_gguf(&file), &tokenizer) {
        let input = ChatInput { messages: json!([{"role": "user", "content": "Hi"}]), ..ChatInput::default() };
        let _ = template.encode(&input, tokenizer);
    }
}
