//! Answers in harmony, the format of gpt-oss: well-formed ones, and those that models write instead.

use proptest::prelude::*;
use zinc_server::output::{OutputParser, Piece};

use super::cuts::same_for_cuts;
use super::matrix::is_full;
use super::support::{Part, Setup, after, call, content, harmony, reasoning, unfinished, without_tools};

const ANALYSIS: &str = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
const NOW: &str = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{\"zone\": \"UTC\"}<|call|>";

/// Parses each answer and compares its parts.
fn check(setup: &Setup, answers: &[(&str, &[Part])]) {
    for (text, expected) in answers {
        assert_eq!(setup.whole(text), *expected, "{text:?}");
        same_for_cuts(setup, text);
    }
}

fn now() -> Part {
    call("now", "{\"zone\": \"UTC\"}")
}

#[test]
fn channels_say_what_is_reasoning_and_what_is_content() {
    let answers: &[(&str, &[Part])] = &[
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
            &[reasoning("Hm."), content("Hi.")],
        ),
        ("<|channel|>final<|message|>Hi.\n\nYou?\n", &[content("Hi.\n\nYou?\n")]),
        ("<|channel|>final <|constrain|>json<|message|>{\"a\": 1}", &[content("{\"a\": 1}")]),
        ("<|channel|>analysis<|message|>\n Hm. \n<|end|>", &[reasoning("Hm.")]),
        // What the model says before calls.
        ("<|channel|>commentary<|message|>I look.<|end|>", &[content("I look.")]),
        // Several messages of a kind.
        (
            "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>B<|end|><|start|>assistant<|channel|>final<|message|>C",
            &[reasoning("A\n\nB"), content("C")],
        ),
        (
            "<|channel|>commentary<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>B",
            &[content("A"), reasoning("x"), content("B")],
        ),
        (
            "<|channel|>commentary<|message|>A<|end|>\n<|start|>assistant<|channel|>final<|message|>B<|end|><|start|>assistant<|channel|>final<|message|>",
            &[content("A"), content("B")],
        ),
        ("", &[]),
        ("<|return|>", &[]),
        (
            "<|channel|>final<|message|>a < b <|x|> </think> <| naïve 日本語 😀<",
            &[content("a < b <|x|> </think> <| naïve 日本語 😀<")],
        ),
    ];
    check(&harmony(), answers);
    check(&without_tools(harmony()), answers);
}

#[test]
fn messages_to_functions_are_calls() {
    check(
        &harmony(),
        &[
            (NOW, &[now()]),
            (&format!("{ANALYSIS}{NOW}"), &[reasoning("Hm."), now()]),
            (
                &format!("{ANALYSIS}<|channel|>commentary<|message|>I look.<|end|><|start|>assistant{NOW}"),
                &[reasoning("Hm."), content("I look."), now()],
            ),
            // The recipient may stand with the role.
            (
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}",
                &[reasoning("Hm."), call("now", "{}")],
            ),
            (" to=functions.now<|channel|>commentary json<|message|>{}", &[call("now", "{}")]),
            (" to=functions.now<|channel|>analysis<|message|>{}", &[call("now", "{}")]),
            (
                "<|channel|>commentary to=functions.now<|message|> {\"a\": \"}<|x\"}\n",
                &[call("now", "{\"a\": \"}<|x\"}")],
            ),
            ("<|channel|>commentary to=now<|constrain|>json<|message|>{}", &[call("now", "{}")]),
            // Several messages with calls.
            (&format!("{NOW}<|start|>assistant{NOW}"), &[now(), now()]),
            (&format!("{}<|end|><|start|>assistant{NOW}", NOW.trim_end_matches("<|call|>")), &[now(), now()]),
            // A tool that the request does not have.
            (
                "<|channel|>commentary to=repo_browser.open code<|message|>{\"a\": 1}",
                &[call("repo_browser.open", "{\"a\": 1}")],
            ),
            // Without arguments: as JSON wants it, and not at all.
            ("<|channel|>commentary to=functions.now<|message|><|call|>", &[call("now", "{}")]),
            ("<|channel|>commentary to=functions.now<|message|>", &[call("now", "{}")]),
            ("<|channel|>commentary to=functions.weather<|message|>", &[]),
            // Marks in a string are text.
            (
                "<|channel|>commentary to=functions.now<|message|>{\"a\": \"<|end|>\"}<|call|>",
                &[call("now", "{\"a\": \"<|end|>\"}")],
            ),
            // Characters that JSON wants escaped.
            (
                "<|channel|>commentary to=functions.now<|message|>{\"a\": \"1\n2\"}",
                &[call("now", "{\"a\": \"1\\n2\"}")],
            ),
        ],
    );
    let text = "<|channel|>commentary to=functions.now<|message|>{}<|call|>";
    check(&without_tools(harmony()), &[(text, &[content("{}")])]);
}

#[test]
fn calls_that_are_malformed_or_cut_off_keep_what_has_come() {
    check(
        &harmony(),
        &[
            (
                "<|channel|>commentary to=functions.now<|message|>{\"a\": tru}<|call|>",
                &[unfinished("now", "{\"a\": tru"), content("}")],
            ),
            ("<|channel|>commentary to=functions.now<|message|>{\"a\": \"b", &[unfinished("now", "{\"a\": \"b")]),
            ("<|channel|>commentary to=functions.now<|message|>{\"a\": <|end|>", &[unfinished("now", "{\"a\": ")]),
            ("<|channel|>commentary to=functions.now<|message|>{}}<|call|>", &[call("now", "{}"), content("}")]),
            ("<|channel|>commentary to=functions.now<|message|>Now?<|call|>", &[content("Now?")]),
            ("<|channel|>analysis to=functions.now<|message|> [1]", &[reasoning("[1]")]),
            ("<|channel|>analysis to=python code<|message|>print(1)<|call|>", &[reasoning("print(1)")]),
        ],
    );
}

#[test]
fn malformed_headers_are_read_as_far_as_they_mean_something() {
    let answer =
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.";
    let parts: &[Part] = &[reasoning("Hm."), content("Hi.")];
    for header in [
        "<|channel|>??<|end|>",
        "<|channel|>commentary?commentary?<|end|>",
        "<|channel|>commentary to=assistant<|channel|>commentary?<|end|>",
        "<|channel|><|end|>",
        "<|end|>",
        "<|start|>",
        "<|channel|>",
        "<|channel|>analysis<|message|><|end|>",
        "<|channel|>final<|end|>",
        "<|constrain|>",
        "\n",
    ] {
        check(&harmony(), &[(&format!("{header}{answer}"), parts)]);
    }
    check(
        &harmony(),
        &[
            ("<|channel|>commentary 2?<|message|>Hi.", &[content("Hi.")]),
            (
                "<|channel|>We need to think.<|end|><|start|>assistant<|channel|>final<|message|>Hi.",
                &[reasoning("We need to think."), content("Hi.")],
            ),
            ("analysis<|message|>Hm.<|end|>final<|message|>Hi.", parts),
            ("<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Hi.", parts),
            ("<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Hi.", parts),
            (
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistantassistant<|channel|>final<|message|>Hi.",
                parts,
            ),
            ("<|channel|>analysis<|message|>Hm.<|message|> So.<|end|>", &[reasoning("Hm. So.")]),
            ("<|channel|>commentary to=functions.now json{\"zone\": \"UTC\"}<|call|>", &[now()]),
            ("<|channel|>commentary to=functions.now<|constrain|>{\"zone\": \"UTC\"}", &[now()]),
            // What the model makes up of others is no answer.
            (
                "<|channel|>final<|message|>Hi.<|end|><|start|>user<|message|>Bye.<|end|>",
                &[content("Hi."), reasoning("Bye.")],
            ),
        ],
    );
}

#[test]
fn a_finished_answer_is_never_thrown_away() {
    let long = "word ".repeat(100);
    check(
        &harmony(),
        &[
            ("Hello.", &[content("Hello.")]),
            (" \n Hello.<|return|>", &[content(" \n Hello.")]),
            ("final answer: 4", &[content("final answer: 4")]),
            ("final", &[content("final")]),
            ("analysis of it", &[content("analysis of it")]),
            ("<|channel|>final Hello.<|return|>", &[content("Hello.")]),
            ("<|channel|>The answer is 4.<|return|>", &[content("The answer is 4.")]),
            ("<|channel|>The answer is 4.", &[content("The answer is 4.")]),
            (
                "<|channel|>analysis<|message|>Hm.<|end|>The answer is 4.",
                &[reasoning("Hm."), content("The answer is 4.")],
            ),
            (
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant The answer is 4.<|return|>",
                &[reasoning("Hm."), content("The answer is 4.")],
            ),
            ("<|channel|>??<|message|>The answer is 4.", &[content("The answer is 4.")]),
            (&format!("<|channel|>{long}"), &[content(&long)]),
            (&format!("<|start|>assistant {long}<|end|>"), &[content(&long)]),
        ],
    );
}

/// An answer that is cut off by its length ends anywhere, in a header too.
#[test]
fn any_beginning_of_an_answer_shows_no_mark_and_no_channel() {
    let text = format!(
        "{ANALYSIS}<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{{\"zone\": \"UTC\"}}<|call|>"
    );
    // Marks are single tokens, which come whole.
    for (end, _) in text.char_indices().filter(|(end, _)| !is_within_mark(&text, *end)) {
        for part in harmony().whole(&text[..end]) {
            match part {
                Part::Reasoning(text) => assert!("Hm.".starts_with(&text), "{text:?}"),
                Part::Content(text) => assert!("I look.".starts_with(&text), "{text:?} of {:?}", &text[..]),
                Part::Call(name, arguments, _) => {
                    assert!(
                        name == "now" && (arguments == "{}" || "{\"zone\": \"UTC\"}".starts_with(&arguments)),
                        "{arguments}"
                    );
                }
            }
        }
    }
}

fn is_within_mark(text: &str, at: usize) -> bool {
    let ends_behind = |open: usize| text[open..].find("|>").is_some_and(|close| at < open + close + 2);
    text.match_indices("<|").any(|(open, _)| open < at && ends_behind(open))
}

#[test]
fn an_answer_goes_on_where_the_prompt_has_begun_it() {
    let begun = "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Once <";
    check(&after(begun, harmony()), &[("upon a time<|return|>", &[content("upon a time")])]);
    check(&after("the end of a long text", harmony()), &[("upon a time", &[content("upon a time")])]);
    let thinking = "<|start|>assistant<|channel|>analysis<|message|>";
    check(
        &after(thinking, harmony()),
        &[("Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.", &[reasoning("Hm."), content("Hi.")])],
    );
    check(&after("", harmony()), &[("<|channel|>final<|message|>Hi.", &[content("Hi.")])]);
}

#[test]
fn text_comes_as_soon_as_it_is_certain() {
    let mut parser = OutputParser::new(&harmony().format, &harmony().tools, "<|start|>assistant");
    for token in ["<|channel|>", "analysis", "<|message|>"] {
        assert_eq!(parser.push(token), []);
    }
    assert!(parser.is_reasoning());
    assert_eq!(parser.push("Hm"), [Piece::Reasoning("Hm".to_owned())]);
    for token in ["<|end|>", "<|start|>", "assistant", "<|channel|>", "final", "<|message|>"] {
        assert_eq!(parser.push(token), []);
        assert!(!parser.is_reasoning());
    }
    for token in ["So", ":\n", " <", "b"] {
        let held = token.ends_with('<');
        let expected = if held {
            " "
        } else if token == "b" {
            "<b"
        } else {
            token
        };
        assert_eq!(parser.push(token), [Piece::Content(expected.to_owned())]);
    }
}

/// What answers in harmony are made of.
const FRAGMENTS: &[&str] = &[
    "<|start|>",
    "<|start|>assistant",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|channel|>analysis<|message|>",
    "<|channel|>final<|message|>",
    "<|channel|>commentary to=functions.now<|message|>",
    "analysis",
    "commentary",
    "final",
    "assistant",
    "user",
    " to=functions.weather",
    "to=",
    "json",
    "{\"city\": \"Rome\"}",
    "{",
    "}",
    "\"",
    "[",
    "?",
    " ",
    "\n",
    "<",
    "<|",
    "|>",
    "Hello",
    "é",
    "日本",
];

/// All text of an answer's parts together.
fn texts(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Reasoning(text) | Part::Content(text) => text.clone(),
        Part::Call(name, arguments, _) => format!("{name}{arguments}"),
    };
    parts.iter().map(text).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if is_full() { 10_000 } else { 500 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Any mixture of marks and text has one meaning, however it is cut, and no mark is in it.
    #[test]
    fn mixtures_of_marks_have_one_meaning(
        fragments in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..25),
        cut in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
    ) {
        let text = fragments.concat();
        let at = |index: &prop::sample::Index| text.floor_char_boundary(index.index(text.len() + 1));
        let (from, to) = (at(&cut).min(at(&other)), at(&cut).max(at(&other)));
        for setup in [harmony(), without_tools(harmony())] {
            let whole = setup.whole(&text);
            prop_assert_eq!(&setup.parts([&text[..from], &text[from..to], &text[to..]]), &whole, "{:?}", text);
            let characters = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
            prop_assert_eq!(&setup.parts(characters), &whole, "{:?}", text);
            let said = whole.iter().filter(|part| !matches!(part, Part::Call(..))).cloned().collect::<Vec<_>>();
            let said = texts(&said);
            for mark in ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"] {
                prop_assert!(!said.contains(mark), "{:?} of {:?}", said, text);
            }
        }
    }

    /// Text in a message of content is there as it is.
    #[test]
    fn content_is_as_the_model_has_written_it(said in any::<String>()) {
        let text = format!("{ANALYSIS}<|channel|>final<|message|>{said}<|return|>");
        let expected: Vec<Part> = [reasoning("Hm.")].into_iter().chain((!said.is_empty()).then(|| content(&said))).collect();
        prop_assert_eq!(harmony().whole(&text), expected);
    }
}

#[test]
fn work_is_linear_in_the_length() {
    const BYTES: usize = 50_000;
    for unit in [
        "<",
        "<|",
        "<|start|>",
        "<|channel|>",
        "<|channel|>a ",
        "<|message|>",
        "<|end|>",
        " ",
        "a ",
        "to=",
        "assistant ",
        "{",
        "[",
        "\\",
        "<|channel|>commentary to=functions.now<|message|>",
    ] {
        for begin in [
            "",
            "<|channel|>",
            "<|channel|>analysis<|message|>",
            "<|channel|>final<|message|>",
            "<|channel|>commentary to=functions.now<|message|>{\"a\": \"",
        ] {
            let text = begin.to_owned() + &unit.repeat(BYTES / unit.len());
            let said = texts(&harmony().whole(&text)).len();
            // Names of calls, escaped characters and lines between messages are what may be added.
            assert!(said <= 6 * text.len() + 16, "{begin:?} and {unit:?} repeated");
        }
    }
}
