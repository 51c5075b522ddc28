//! A chat with a model in a GGUF file: each line of stdin is a message.
//!
//! `cargo run --release -p zinc-engine --example chat [MODEL.gguf]` takes the demo model where none is named, and asks one question where
//! stdin is empty.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chat prints")]

use std::error::Error;
use std::io::{Write as _, stdin, stdout};

use zinc_engine::{AnswerEvent, AnswerOptions, Conversation, LoadedModel, OpenEvent, OpenOptions};

const DEMO_MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/zinc-demo-q4_k_m.gguf");

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| DEMO_MODEL.to_owned());
    let model = LoadedModel::open(path, &OpenOptions::new(), &mut |event| {
        if let OpenEvent::Note(note) = event {
            eprintln!("note: {note}");
        }
    })?;
    let template = model.file().template()?;
    let rules = AnswerOptions::new().for_model(model.file())?;
    let mut conversation = Conversation::new(None);
    let mut messages = stdin().lines().peekable();
    let question = messages.peek().is_none().then(|| Ok("What is a telescope?".to_owned()));
    for message in question.into_iter().chain(messages) {
        let message = message?;
        eprintln!("> {message}");
        conversation.say(message);
        let prompt = model.file().chat_prompt(&template, &conversation.input(Default::default()))?;
        for event in model.answer(&rules, prompt)? {
            match event? {
                AnswerEvent::Text(piece) => print!("{}", piece.text),
                AnswerEvent::Ended(answer) => conversation.answered(&answer.text),
                _ => {}
            }
            stdout().flush()?;
        }
        println!();
    }
    Ok(model.close()?)
}
