//! From a file to text, without a GPU: the demo model answers a question on the interpreter, greedily.
//!
//! `cargo run -p zinc-model --no-default-features --example answer [QUESTION]`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::{Lane, StepState};
use zinc_model::interpret::Interpreter;
use zinc_model::plan::{CacheOptions, PlanKind};
use zinc_model::{ChatInput, ChatTemplate, Model, Tokenizer};

/// Positions of the KV cache: the prompt and the answer must fit.
const CONTEXT: u32 = 256;
/// The number of the sequence. A step stops the sequence whose number it is given; the number 0 is given here and stops none.
const SEQUENCE: u32 = 1;
/// The most tokens of an answer.
const BUDGET: u32 = 48;

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn Error>> {
    let question = std::env::args().nth(1).unwrap_or_else(|| "What is a telescope?".to_owned());
    let model = Model::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zinc-demo-q4_k_m.gguf"))?;
    let tokenizer = Tokenizer::from_gguf(&model.file)?;
    let messages = serde_json::json!([{ "role": "user", "content": question }]);
    let input = ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() };
    let prompt = ChatTemplate::from_gguf(&model.file)?.encode(&input, &tokenizer)?;

    let cache = CacheOptions::new(CONTEXT, CacheFormat::F16, CacheFormat::F16);
    let mut interpreter = Interpreter::new(Arc::new(model), cache);
    interpreter.tokens[..prompt.len()].copy_from_slice(&prompt);
    interpreter.end_tokens = tokenizer.eog().to_vec();
    // An inverse temperature of 0, the default, takes the likeliest token.
    interpreter.state = StepState::from(Lane {
        token: prompt[0],
        prompt_length: prompt.len() as u32,
        budget: BUDGET,
        context_length: CONTEXT,
        end_token_count: tokenizer.eog().len() as u32,
        sequence: SEQUENCE,
        ..Lane::default()
    });
    let mut text = tokenizer.stream();
    while interpreter.state.row_count > 0 {
        // Only the steps from the prompt's last token on need logits.
        let sampling = interpreter.state.lane.position as usize + 1 >= prompt.len();
        interpreter.step(if sampling { PlanKind::Decode } else { PlanKind::Feed });
        if sampling && !tokenizer.is_eog(interpreter.state.lane.token) {
            print!("{}", text.push(interpreter.state.lane.token));
        }
    }
    println!("{}", text.finish());
    let answered = interpreter.state.lane.position as usize > prompt.len();
    if answered { Ok(()) } else { Err("the model gave no answer".into()) }
}
