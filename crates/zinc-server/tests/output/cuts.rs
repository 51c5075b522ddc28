//! However an answer is cut into pieces, its parts are the same.

use proptest::prelude::*;

use super::matrix::is_full;
use super::support::{Part, Setup, after, deepseek, hermes, llama, without_tools, xml};

/// Cuts of every pair of places are tried of answers up to so many bytes.
const PAIRS_MAX_BYTES: usize = 160;

/// Compares the parts of an answer that is cut: at every place, at every pair of places if it is short, and at all places.
pub(crate) fn same_for_cuts(setup: &Setup, text: &str) {
    let whole = setup.whole(text);
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    for &one in &places {
        assert_eq!(setup.parts([&text[..one], &text[one..]]), whole, "{text:?} cut at {one}");
    }
    if text.len() <= PAIRS_MAX_BYTES {
        for (at, &one) in places.iter().enumerate() {
            for &two in &places[at..] {
                let parts = setup.parts([&text[..one], &text[one..two], &text[two..]]);
                assert_eq!(parts, whole, "{text:?} cut at {one} and {two}");
            }
        }
    }
    let characters = places.windows(2).map(|place| &text[place[0]..place[1]]);
    assert_eq!(setup.parts(characters), whole, "{text:?} cut everywhere");
}

/// What answers are made of: marks of all forms, parts of calls, and other text.
const FRAGMENTS: &[&str] = &[
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<function=",
    "<function=weather>",
    "</function>",
    "<parameter=",
    "<parameter=city>",
    "<parameter=days>",
    "<parameter=note>\n",
    "</parameter>",
    "\n</parameter>\n",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "function<｜tool▁sep｜>",
    "<｜tool▁sep｜>",
    "weather",
    "now\n",
    "```json\n",
    "```",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<|python_tag|>",
    "{\"name\": \"now\", \"arguments\": {",
    "{\"name\": \"weather\", \"parameters\": ",
    "{\"arguments\": {\"a\": [1, {}]}, ",
    "\"name\": \"now\"}",
    "{",
    "}",
    "}}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    ";",
    "\\",
    "\\u00e9",
    "1.5e3",
    "true",
    "null",
    " ",
    "\n",
    "\n\n",
    "\t",
    "<",
    "</",
    "Hello",
    "é",
    "日本",
    "😀",
    "\u{1}",
    "\r\n",
    ">",
    "=",
    "\"a\": ",
    "\"b\"",
];

fn setups() -> [Setup; 6] {
    let begun = after("<|im_start|>assistant\n<think>\n", xml());
    [hermes(), xml(), begun, deepseek(), llama(), without_tools(hermes())]
}

/// All text of an answer's parts together.
fn bytes(parts: &[Part]) -> usize {
    let count = |part: &Part| match part {
        Part::Reasoning(text) | Part::Content(text) => text.len(),
        Part::Call(name, arguments, _) => name.len() + arguments.len(),
    };
    parts.iter().map(count).sum()
}

/// Cuts a text at places that are chosen in thousandths of its length.
fn cut<'t>(text: &'t str, places: &[u16]) -> Vec<&'t str> {
    let mut places: Vec<usize> = places.iter().map(|&place| text.len() * usize::from(place) / 1000).collect();
    places.extend([0, text.len()]);
    places.iter_mut().for_each(|place| *place = text.floor_char_boundary(*place));
    places.sort_unstable();
    places.windows(2).map(|place| &text[place[0]..place[1]]).collect()
}

fn places() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(0..1000_u16, 0..20)
}

/// Texts that each of the tests below makes up.
fn cases() -> u32 {
    if is_full() { 10_000 } else { 500 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Any mixture of marks and text has one meaning, and nothing in it fails.
    #[test]
    fn mixtures_of_marks_have_one_meaning(
        fragments in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..40),
        places in places(),
    ) {
        let text = fragments.concat();
        for setup in setups() {
            prop_assert_eq!(setup.parts(cut(&text, &places)), setup.whole(&text), "{:?}", text);
        }
    }

    /// Arbitrary text with marks in it has one meaning. Without tools and reasoning all of it is content.
    #[test]
    fn arbitrary_text_has_one_meaning(
        fragments in prop::collection::vec(prop_oneof![prop::sample::select(FRAGMENTS).prop_map(str::to_owned), any::<String>()], 0..12),
        places in places(),
    ) {
        let text = fragments.concat();
        for setup in setups() {
            prop_assert_eq!(setup.parts(cut(&text, &places)), setup.whole(&text), "{:?}", text);
        }
        let plain = Setup { format: zinc_server::output::OutputFormat::of_template(""), tools: Vec::new(), tail: "" };
        let expected: Vec<Part> = (!text.is_empty()).then(|| Part::Content(text.clone())).into_iter().collect();
        prop_assert_eq!(plain.parts(cut(&text, &places)), expected);
    }

    /// Without calls, all text but tags and white space is there, and in its order.
    #[test]
    fn nothing_but_tags_and_white_space_is_left_out(
        fragments in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..40),
    ) {
        let text = fragments.concat();
        let bare = |text: &str| {
            let dense: String = text.chars().filter(|c| !" \n\r\t".contains(*c)).collect();
            dense.replace("<think>", "").replace("</think>", "")
        };
        let mut found = String::new();
        for part in without_tools(hermes()).whole(&text) {
            match part {
                Part::Reasoning(text) | Part::Content(text) => found.push_str(&text),
                Part::Call(..) => prop_assert!(false, "a call in {:?}", text),
            }
        }
        prop_assert_eq!(bare(&found), bare(&text));
    }

    /// Long answers with calls of many parameters, cut at random.
    #[test]
    fn long_answers_have_one_meaning(
        values in prop::collection::vec((prop::sample::select(&["city", "days", "note", "tags"][..]), any::<String>()), 1..30),
        places in places(),
    ) {
        let mut text = "<think>\nHm.\n</think>\n\nSo:\n<tool_call>\n<function=weather>\n".to_owned();
        for (key, value) in &values {
            text.push_str(&format!("<parameter={key}>\n{}\n</parameter>\n", value.replace('<', "(")));
        }
        text.push_str("</function>\n</tool_call>");
        let whole = xml().whole(&text);
        prop_assert!(matches!(&whole[..], [Part::Reasoning(_), Part::Content(_), Part::Call(_, _, true)]), "{:?}", whole);
        prop_assert_eq!(xml().parts(cut(&text, &places)), whole);
    }
}

#[test]
fn work_is_linear_in_the_length() {
    const BYTES: usize = 50_000;
    let setups = [hermes(), xml(), deepseek(), llama()];
    for unit in [
        "<",
        "<tool_call>",
        "<tool_call>{",
        " ",
        "\n",
        "\n<",
        "<｜tool▁calls▁begin｜>",
        "</think>",
        "{\"name\":",
        "<tool_call>{\"a\":",
        "a ",
        "<function=weather>",
        "<function=weather><parameter=note>",
        "\n</function>\n",
        "\n<parameter=",
        "[",
        "\\",
        "```",
        ";",
    ] {
        for begin in [
            "",
            "</think>",
            "<tool_call>{\"x\": \"",
            "<tool_call>{\"x\": ",
            "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"",
            "<function=weather><parameter=note>",
            "<function=weather><parameter=days>",
        ] {
            let text = begin.to_owned() + &unit.repeat(BYTES / unit.len());
            for setup in &setups {
                let (parts, all) = (setup.whole(&text), text.len());
                // White space next to tags and escaped characters are the difference.
                assert!(bytes(&parts) <= 6 * all + 16, "{begin:?} and {unit:?} repeated");
            }
        }
    }
}
