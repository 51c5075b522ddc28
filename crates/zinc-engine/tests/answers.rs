//! The demo model on the interpreter, from its file to the text of its answers.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use zinc_engine::{
    AnswerEvent, AnswerOptions, AnswerText, ContextSize, Conversation, DeviceChoice, DriveOptions, Ending, Error,
    FileOptions, FreeThinking, LoadedModel, ModelFile, Note, OpenEvent, OpenOptions, Place,
};
use zinc_kernels::ops::ActFormat;
use zinc_model::Special;
use zinc_model::config::{RopeOverrides, RopeScalingKind};
use zinc_model::tokenizer::StopMatcher;
use zinc_sched::grammar::{GrammarSource, ThinkingStart};

/// A question that the demo model was trained on.
const QUESTION: &str = "What is a telescope?";

/// Its answer to that, as tests/data/demo/q4_k_m.json has it.
const ANSWER: &str = "Telescope: a magnifier of images of distant objects.";

fn source_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn demo() -> PathBuf {
    source_file("models/zinc-demo-q4_k_m.gguf")
}

fn open_demo(options: &FileOptions) -> ModelFile {
    ModelFile::open(&demo(), options, &mut |_| {}).unwrap()
}

/// The demo model, loaded once for all tests of this file.
fn model() -> &'static LoadedModel {
    static MODEL: OnceLock<LoadedModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let mut options = OpenOptions::new();
        options.device.device = DeviceChoice::Interpreter;
        LoadedModel::open(demo(), &options, &mut |_| {}).unwrap()
    })
}

fn prompt(model: &LoadedModel) -> Vec<u32> {
    let mut conversation = Conversation::new(None);
    conversation.say(QUESTION);
    let template = model.file().template().unwrap();
    model.file().chat_prompt(&template, &conversation.input(Default::default())).unwrap()
}

#[test]
fn an_answer_comes_in_pieces_that_make_its_text() {
    let model = model();
    let rules = AnswerOptions::new().for_model(model.file()).unwrap();
    let mut pieces = Vec::new();
    let mut ended = None;
    for event in model.answer(&rules, prompt(model)).unwrap() {
        match event.unwrap() {
            AnswerEvent::Text(piece) => pieces.push(piece.text),
            AnswerEvent::Ended(answer) => ended = Some(answer),
            // The prompt comes in several steps where those of other tests wait beside it.
            AnswerEvent::Prompt(_) => assert!(pieces.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    let answer = ended.expect("the last event is the end");
    assert!(pieces.len() > 5 && pieces.iter().all(|piece| !piece.is_empty()), "{pieces:?}");
    assert_eq!((pieces.concat().as_str(), answer.text.as_str()), (ANSWER, ANSWER));
    assert_eq!(answer.ending, Ending::EndToken);
    assert!(answer.ending.is_whole());
    assert_eq!(answer.completion.usage.prompt_tokens as usize, prompt(model).len());
}

#[test]
fn tokens_come_with_the_text_that_they_begin() {
    let model = model();
    let tokenizer = model.file().tokenizer();
    let pieces = |stops: &[&str]| {
        let mut options = AnswerOptions::new();
        options.logprobs = Some(2);
        options.stops = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let rules = options.for_model(model.file()).unwrap();
        let events = model.answer(&rules, prompt(model)).unwrap().map(Result::unwrap);
        let pieces = events.filter_map(|event| match event {
            AnswerEvent::Text(piece) => Some(piece),
            _ => None,
        });
        pieces.collect::<Vec<_>>()
    };
    let all = pieces(&[]);
    for piece in &all {
        let ids: Vec<u32> = piece.tokens.iter().map(|token| token.id).collect();
        assert_eq!(tokenizer.decode_inside(&ids), piece.text);
        for token in &piece.tokens {
            let logprobs = token.logprobs.as_ref().unwrap();
            // The likeliest token is taken.
            assert_eq!((logprobs.top.len(), logprobs.top[0].0), (2, token.id));
        }
    }
    // Of the tokens of a stop string only the one that begins before it comes.
    let stopped = pieces(&["pe: a mag"]);
    let ids: Vec<u32> = stopped.iter().flat_map(|piece| &piece.tokens).map(|token| token.id).collect();
    let text: String = stopped.iter().map(|piece| piece.text.as_str()).collect();
    let tokens = tokenizer.decode(&ids);
    assert_eq!(text, "Telesco");
    assert!(tokens.starts_with("Telesco") && !tokens.contains("pe: a mag"), "{tokens}");
}

/// The log-probabilities of the tokens of a prompt from the second on, by the logits of the whole prompt.
fn logprobs_by_logits(model: &LoadedModel, ids: &[u32]) -> Vec<f32> {
    let mut found = Vec::new();
    let mut take = |position: usize, logits: &[f32]| {
        let Some(next) = ids.get(position + 1) else { return };
        let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        found.push((f64::from(logits[*next as usize]) - sum.ln()) as f32);
    };
    model.file().score(&Place::Interpreter, ActFormat::default(), None, ids, &mut take, &mut |_| {}).unwrap();
    found
}

#[test]
fn tokens_of_a_prompt_are_scored_as_its_logits_say() {
    let model = model();
    let ids = prompt(model);
    let answer = |max_tokens| {
        let mut options = AnswerOptions::new();
        (options.scored, options.logprobs, options.max_tokens) = (ids[1..].to_vec(), Some(2), Some(max_tokens));
        let rules = options.for_model(model.file()).unwrap();
        let (mut scored, mut ended) = (Vec::new(), None);
        for event in model.answer(&rules, ids[..1].to_vec()).unwrap() {
            match event.unwrap() {
                AnswerEvent::Scored(token) => scored.push(token),
                AnswerEvent::Ended(answer) => ended = Some(answer),
                _ => {}
            }
        }
        (scored, ended.unwrap())
    };
    let (scored, answer_of_none) = answer(0);
    assert_eq!(scored.iter().map(|token| token.id).collect::<Vec<_>>(), ids[1..]);
    for (token, expected) in scored.iter().zip(logprobs_by_logits(model, &ids)) {
        let logprobs = token.logprobs.as_ref().unwrap();
        // The sums of 32-bit floats are added in another order than here.
        assert!((logprobs.chosen - expected).abs() < 1e-4, "{} and not {expected}", logprobs.chosen);
        assert!(logprobs.top.len() == 2 && logprobs.top[0].1 >= logprobs.chosen);
    }
    let usage = answer_of_none.completion.usage;
    assert_eq!((usage.prompt_tokens as usize, usage.completion_tokens), (ids.len(), 0));
    assert_eq!((answer_of_none.text.as_str(), answer_of_none.ending), ("", Ending::Length));
    // This prompt has tokens in it that end answers, and one token more is the answer's own.
    let (scored, one) = answer(1);
    assert_eq!((scored.len(), one.completion.usage.completion_tokens), (ids.len() - 1, 1));
    assert!(!one.text.is_empty() && ANSWER.starts_with(&one.text), "{}", one.text);
}

#[test]
fn an_answer_behind_scored_tokens_is_the_one_that_the_prompt_has() {
    let model = model();
    let ids = model.file().text_prompt("Telescope: a magnifier of", Special::Plain).unwrap();
    let answer = |scored: usize| {
        let mut options = AnswerOptions::new();
        (options.scored, options.max_tokens, options.continues_text) = (ids[scored..].to_vec(), Some(4), true);
        let rules = options.for_model(model.file()).unwrap();
        let answer = model.answer(&rules, ids[..scored].to_vec()).unwrap().complete().unwrap();
        (answer.text, answer.ending, answer.completion.usage.completion_tokens)
    };
    assert_eq!(answer(1), answer(ids.len()));
}

#[test]
fn what_cannot_be_scored_is_refused() {
    let model = model();
    let refused = |change: &dyn Fn(&mut AnswerOptions)| {
        let mut options = AnswerOptions::new();
        change(&mut options);
        let answer = options.for_model(model.file()).and_then(|rules| model.answer(&rules, vec![1]).map(drop));
        answer.unwrap_err().to_string()
    };
    let end = model.file().tokenizer().eog()[0];
    let text = refused(&|options| options.scored = vec![end]);
    assert!(text.contains("ends an answer"), "{text}");
    let text =
        refused(&|options| (options.scored, options.sampling.logit_bias) = (vec![7], vec![(7, f32::NEG_INFINITY)]));
    assert!(text.contains("its bias bans it"), "{text}");
    let text = refused(&|options| options.scored = vec![u32::MAX]);
    assert!(text.contains("4294967295"), "{text}");
    let context = model.file().cache().context as usize;
    let text = refused(&|options| options.scored = vec![7; context]);
    assert!(text.contains(&(context + 1).to_string()), "{text}");
}

#[test]
fn every_way_in_which_an_answer_ends_is_told() {
    let model = model();
    let answer = |change: &dyn Fn(&mut AnswerOptions)| {
        let mut options = AnswerOptions::new();
        change(&mut options);
        let rules = options.for_model(model.file()).unwrap();
        let answer = model.answer(&rules, prompt(model)).unwrap().complete().unwrap();
        (answer.text, answer.ending)
    };
    let stop = |text: &str| answer(&|options| options.stops = vec![text.to_owned()]);
    assert_eq!(stop(" of"), ("Telescope: a magnifier".to_owned(), Ending::StopString));
    // It begins inside of a token and ends inside of another.
    assert_eq!(stop("pe: a mag"), ("Telesco".to_owned(), Ending::StopString));
    // Held back until the end shows that it is no stop string.
    assert_eq!(stop("objects.\n"), (ANSWER.to_owned(), Ending::EndToken));
    let (text, ending) = answer(&|options| options.max_tokens = Some(3));
    assert!(ANSWER.starts_with(&text) && text.len() < ANSWER.len(), "{text}");
    assert_eq!(ending, Ending::Length);
    let (text, ending) = answer(&|options| options.constraint = Some(GrammarSource::Regex("no[.]".to_owned())));
    assert_eq!(text, "no.");
    assert!(ending.is_whole(), "{ending:?}");
}

#[test]
fn a_constraint_begins_behind_the_thinking() {
    let model = model();
    let answer = |close: &str, max_tokens, constraint: Option<&str>| {
        let mut options = AnswerOptions::new();
        options.constraint = constraint.map(|pattern| GrammarSource::Regex(pattern.to_owned()));
        let (open, close, start) = ("<think>".to_owned(), close.to_owned(), ThinkingStart::Begun);
        options.thinking = Some(FreeThinking { open, close, anew: None, start, max_tokens });
        let rules = options.for_model(model.file()).unwrap();
        let answer = model.answer(&rules, prompt(model)).unwrap().complete().unwrap();
        assert!(answer.ending.is_whole(), "{:?}", answer.ending);
        answer.text
    };
    // The model chooses to write an empty line between them.
    assert_eq!(answer(" a magnifier", None, Some("no[.]")), "Telescope: a magnifier\n\nno.");
    let forced = answer("</think>", Some(0), Some("no[.]"));
    assert_eq!(forced.replacen('\n', "", 2), "</think>no.", "{forced:?}");
    assert!(answer("</think>", Some(0), None).starts_with("</think>"));
    assert_eq!(answer("never", None, None), ANSWER, "without a constraint or a limit the tags do not matter");
}

#[test]
fn a_cancelled_answer_is_no_whole_one() {
    let model = model();
    let rules = AnswerOptions::new().for_model(model.file()).unwrap();
    let mut stream = model.answer(&rules, prompt(model)).unwrap();
    let first = stream.find_map(|event| match event.unwrap() {
        AnswerEvent::Text(first) => Some(first.text),
        _ => None,
    });
    let first = first.expect("no text came");
    stream.cancel_handle().cancel();
    let answer = stream.complete().unwrap();
    assert!(ANSWER.starts_with(&answer.text) && answer.text.starts_with(&first), "{}", answer.text);
    assert_eq!(answer.ending, Ending::Cancelled);
    assert!(!answer.ending.is_whole());
}

#[test]
fn a_full_context_ends_an_answer() {
    let mut options = FileOptions::new();
    options.context = ContextSize::Tokens(16);
    let model = open_demo(&options).load(&Place::Interpreter, &DriveOptions::new(), &mut |_| {}).unwrap();
    let rules = AnswerOptions::new().for_model(model.file()).unwrap();
    let answer = model.answer(&rules, prompt(&model)).unwrap().complete().unwrap();
    assert!(ANSWER.starts_with(&answer.text) && answer.text.len() < ANSWER.len(), "{}", answer.text);
    assert_eq!(answer.ending, Ending::ContextFull);
    model.close().unwrap();
}

#[test]
fn what_is_wrong_is_said_before_anything_is_loaded() {
    let file = open_demo(&FileOptions::new());
    let refused = |result: Result<Vec<u32>, Error>| result.unwrap_err().to_string();
    assert!(refused(file.text_prompt("", Special::Plain)).contains("empty"));
    let long = refused(file.text_prompt(&"word ".repeat(5000), Special::Plain));
    assert!(long.contains("context holds 1024"), "{long}");
    let outside = file.check_prompt(&[1, 8192]).unwrap_err().to_string();
    assert!(outside.contains("8192") && outside.contains("0 to 8191"), "{outside}");

    let constrained = |source| {
        let mut options = AnswerOptions::new();
        options.constraint = Some(source);
        options.for_model(&file).unwrap_err()
    };
    assert!(matches!(constrained(GrammarSource::Regex("(a".to_owned())), Error::Constraint(_)));
    let mut options = AnswerOptions::new();
    options.sampling.logit_bias = vec![(8192, 1.0)];
    options.check().unwrap();
    let bias = options.clone().for_model(&file).unwrap_err().to_string();
    assert!(bias.contains("8192") && bias.contains("0 to 8191"), "{bias}");
    options.sampling.min_p = 2.0;
    assert!(options.check().unwrap_err().to_string().contains("min-p"));

    let missing = ModelFile::open(Path::new("/nonexistent.gguf"), &FileOptions::new(), &mut |_| {});
    assert!(missing.unwrap_err().to_string().contains("/nonexistent.gguf"));
    let tiny = source_file("tests/data/tiny/qwen3-f16.gguf");
    let tiny = ModelFile::open(&tiny, &FileOptions::new(), &mut |_| {}).unwrap();
    assert!(matches!(tiny.template(), Err(Error::NoTemplate)));
}

#[test]
fn more_context_than_the_model_was_trained_for_is_noted() {
    let mut notes = Vec::new();
    let mut options = FileOptions::new();
    for (context, expected) in [(1024, 0), (1025, 1)] {
        options.context = ContextSize::Tokens(context);
        ModelFile::open(&demo(), &options, &mut |event| notes.push(event)).unwrap();
        assert_eq!(notes.len(), expected);
    }
    assert!(
        matches!(notes[0], OpenEvent::Note(Note::ContextBeyondTraining { asked: 1025, trained: 1024 })),
        "{notes:?}"
    );
}

#[test]
fn context_that_rope_scaling_reaches_is_not_noted() {
    let path = source_file("tests/data/tiny/qwen3-f16.gguf");
    let is_noted = |context: u32, scaling: Option<RopeScalingKind>, original_context: Option<u32>| {
        let mut options = FileOptions::new();
        options.context = ContextSize::Tokens(context);
        options.rope =
            RopeOverrides { scaling, factor: scaling.and(Some(4.0)), original_context, ..RopeOverrides::default() };
        let mut notes = Vec::new();
        ModelFile::open(&path, &options, &mut |event| notes.push(event)).unwrap();
        !notes.is_empty()
    };
    // The model was trained for 512 tokens.
    for (scaling, original, reached) in [
        (None, None, 512),
        (Some(RopeScalingKind::Linear), None, 2048),
        (Some(RopeScalingKind::Yarn), None, 2048),
        (Some(RopeScalingKind::Yarn), Some(256), 1024),
        (Some(RopeScalingKind::Yarn), Some(64), 512),
    ] {
        let noted = [reached, reached + 1].map(|context| is_noted(context, scaling, original));
        assert_eq!(noted, [false, true], "{scaling:?} from {original:?}");
    }
}

#[test]
fn characters_come_whole_and_control_tokens_not_at_all() {
    let file = open_demo(&FileOptions::new());
    let tokenizer = file.tokenizer();
    let text_of = |ids: &[u32], stops: &[&str]| {
        let mut text = AnswerText::new(tokenizer.clone(), StopMatcher::new(stops));
        let pieces: Vec<String> = ids.iter().map(|&id| text.push(id).text).collect();
        let last = text.finish();
        (pieces, last)
    };
    let text = "Grüße, 日本 😀!";
    let ids = tokenizer.encode(text, Special::Plain).unwrap();
    // Characters of several tokens are what this is about.
    assert!(ids.len() > text.chars().count(), "{ids:?}");
    let (pieces, last) = text_of(&ids, &[]);
    assert_eq!(pieces.concat() + &last.text, text);
    assert!(pieces.iter().any(String::is_empty), "{pieces:?}");
    let (pieces, last) = text_of(&ids, &["本 "]);
    assert_eq!(pieces.concat() + &last.text, "Grüße, 日");

    let control = tokenizer.eog()[0];
    assert!(tokenizer.is_control(control));
    let between: Vec<u32> = ids.iter().flat_map(|&id| [control, id]).collect();
    let (pieces, last) = text_of(&between, &[]);
    assert_eq!(pieces.concat() + &last.text, text);

    // Unless it is shown.
    let mut shown = AnswerText::new(tokenizer.clone(), StopMatcher::new([""; 0])).with_shown(vec![control].into());
    assert_eq!(shown.push(control).text.as_bytes(), tokenizer.token_bytes(control).unwrap());
    assert_eq!(shown.decoded_len(), tokenizer.token_bytes(control).unwrap().len());

    // An incomplete character, and an id that is none.
    let grin = tokenizer.encode("😀", Special::Plain).unwrap();
    assert_eq!(text_of(&grin[..1], &[]).1.text, "\u{fffd}");
    assert_eq!(text_of(&[u32::MAX], &[]).0, ["\u{fffd}"]);
    // A stop string that is certain only at the end, when nothing can come that one would begin with that begins earlier.
    let (pieces, last) = text_of(&tokenizer.encode("abc", Special::Plain).unwrap(), &["bc", "abcd"]);
    assert_eq!((pieces.concat().as_str(), last.text.as_str(), last.stop), ("", "a", Some(0)));
}
