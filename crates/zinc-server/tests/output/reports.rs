//! What users of other engines have reported, by number, and what is right.

use serde_json::json;
use zinc_server::output::{OutputFormat, OutputParser, Piece, Thinking};

use super::cuts::same_for_cuts;
use super::support::{
    ASSISTANT, Part, Setup, after, call, content, deepseek, hermes, llama, reasoning, tool, unfinished, xml,
};

const THINKING: &str = "<|im_start|>assistant\n<think>\n";
const CALL: &str = "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"zone\": \"UTC\"}}\n</tool_call>";

/// The pieces of an answer that comes character by character.
fn streamed(setup: &Setup, text: &str) -> Vec<Piece> {
    let mut parser = OutputParser::new(&setup.format, &setup.tools, setup.tail);
    let mut pieces: Vec<Piece> = text.split_inclusive(|_| true).flat_map(|character| parser.push(character)).collect();
    pieces.extend(parser.finish());
    pieces
}

#[test]
fn report_01_a_finished_answer_is_never_thrown_away() {
    for (text, expected) in [
        ("<think>Hm.</think>All of it.</think>", vec![reasoning("Hm."), content("All of it.</think>")]),
        ("<think>Hm.</think>All of it.\n<think>", vec![reasoning("Hm."), content("All of it.\n<think>")]),
        ("All of it.<think>\n</think>", vec![content("All of it.<think>\n</think>")]),
        ("<tool_call>{\"name\": \"now\", \"arguments\": {]}</tool_call>", vec![unfinished("now", "{"), content("]}")]),
    ] {
        assert_eq!(hermes().whole(text), expected);
    }
}

#[test]
fn report_02_any_beginning_of_an_answer_is_an_answer() {
    let hermes_text = format!("<think>\nHm.\n</think>\n\nI look.\n{CALL}");
    let xml_text =
        "I look.\n<tool_call>\n<function=weather>\n<parameter=days>\n12\n</parameter>\n</function>\n</tool_call>";
    let deepseek_text = "Hm.</think>I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>";
    let llama_text = "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}";
    for (setup, text) in
        [(hermes(), &*hermes_text), (xml(), xml_text), (deepseek(), deepseek_text), (llama(), llama_text)]
    {
        for (end, _) in text.char_indices().skip(1) {
            // The parts are checked as they are joined.
            assert!(!setup.whole(&text[..end]).is_empty() || text[..end].trim() == "<think>", "{:?}", &text[..end]);
        }
        assert!(setup.whole(text).contains(&content("I look.")) || text == llama_text);
    }
}

#[test]
fn report_03_arguments_that_are_cut_off_stay_as_far_as_they_came() {
    let cut = &CALL[..CALL.find("TC").unwrap()];
    assert_eq!(hermes().whole(cut), [unfinished("now", "{\"zone\": \"U")]);
    let cut = "<tool_call>\n<function=write>\n<parameter=path>\na.txt\n</parameter>\n<parameter=text>\nOnce upon";
    assert_eq!(xml().whole(cut), [unfinished("write", "{\"path\":\"a.txt\",\"text\":\"Once upon")]);
}

#[test]
fn report_05_what_may_begin_a_call_is_held_back() {
    let text = format!("1 < 2 <b>\n{CALL}");
    let pieces = streamed(&hermes(), &text);
    let begin = pieces.iter().position(|piece| matches!(piece, Piece::ToolCallBegin { .. })).unwrap();
    let before: String =
        pieces[..begin].iter().map(|piece| if let Piece::Content(text) = piece { text.as_str() } else { "" }).collect();
    assert_eq!(before, "1 < 2 <b>");
    assert!(pieces[begin..].iter().all(|piece| !matches!(piece, Piece::Content(_))), "{pieces:?}");
    // What does not become a call is released at the first character that does not fit.
    let mut parser = OutputParser::new(&hermes().format, &hermes().tools, ASSISTANT);
    assert_eq!(parser.push("a\n<tool_call"), [Piece::Content("a".to_owned())]);
    assert_eq!(parser.push("s"), [Piece::Content("\n<tool_calls".to_owned())]);
}

/// Without tools, content cannot be anything else.
#[test]
fn content_without_tools_is_not_held_back() {
    let mut parser = OutputParser::new(&hermes().format, &[], ASSISTANT);
    for piece in ["So:", "\n", "<tool_call", "> ", "<think", "</"] {
        assert_eq!(parser.push(piece), [Piece::Content(piece.to_owned())]);
    }
    assert_eq!(parser.finish(), []);
}

#[test]
fn report_06_streamed_and_unstreamed_answers_are_equal() {
    same_for_cuts(&hermes(), &format!("<think>\nHm.\n</think>\n\nSo:\n{CALL}\n{CALL}\nDone."));
    same_for_cuts(
        &xml(),
        "<tool_call>\n<function=weather>\n<parameter=note>\nn\n</parameter>\n</function>\n</tool_call>",
    );
}

/// Arguments are not delivered at once at the end, but as they come.
#[test]
fn arguments_stream() {
    let xml_text =
        "<tool_call>\n<function=write>\n<parameter=text>\nOnce upon a time\n</parameter>\n</function>\n</tool_call>";
    for (setup, text) in [(hermes(), CALL), (xml(), xml_text)] {
        let pieces = streamed(&setup, text);
        let fragments = pieces.iter().filter(|piece| matches!(piece, Piece::ToolCallArguments { .. })).count();
        assert!(fragments > 10, "{pieces:?}");
    }
}

#[test]
fn report_07_only_complete_calls_have_an_end() {
    let two = format!("{CALL}\n{}", &CALL[..CALL.find("UTC").unwrap()]);
    assert_eq!(hermes().whole(&two), [call("now", "{\"zone\": \"UTC\"}"), unfinished("now", "{\"zone\": \"")]);
    // The end of the arguments is what completes a call.
    assert_eq!(hermes().whole(CALL.trim_end_matches("\n</tool_call>")), [call("now", "{\"zone\": \"UTC\"}")]);
    assert_eq!(hermes().whole(CALL.trim_end_matches("}\n</tool_call>")), [unfinished("now", "{\"zone\": \"UTC\"}")]);
}

#[test]
fn report_08_thinking_that_is_cut_off_stays_reasoning() {
    for (setup, text) in
        [(after(THINKING, hermes()), "Let me see"), (hermes(), "<think>\nLet me see"), (deepseek(), "Let me see")]
    {
        assert_eq!(setup.whole(text), [reasoning("Let me see")]);
        assert_eq!(setup.whole(&format!("{text} <tool_call>{{")), [reasoning("Let me see <tool_call>{")]);
    }
}

#[test]
fn report_09_thinking_that_is_switched_off_is_off() {
    let off = after("<|im_start|>assistant\n<think>\n\n</think>\n\n", hermes());
    assert_eq!(off.format.thinking(off.tail), Thinking::No);
    assert_eq!(off.whole("Hello."), [content("Hello.")]);
}

#[test]
fn report_11_reasoning_is_told_from_content_while_it_comes() {
    let mut parser = OutputParser::new(&hermes().format, &[], THINKING);
    assert!(parser.is_reasoning());
    parser.push("STOP </th");
    assert!(parser.is_reasoning());
    parser.push("ink>");
    assert!(!parser.is_reasoning());
}

#[test]
fn report_12_arguments_have_the_types_of_the_schema() {
    let schema = json!({"properties": {
        "limit": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "text": {"type": "string"},
    }});
    let setup = Setup { tools: vec![tool("find", schema)], ..xml() };
    let parameter = |key: &str, value: &str| format!("<parameter={key}>\n{value}\n</parameter>\n");
    let text = [
        "<tool_call>\n<function=find>\n",
        &parameter("limit", "12"),
        &parameter("either", "12"),
        &parameter("text", "12"),
        "</function>",
    ];
    assert_eq!(setup.whole(&text.concat()), [call("find", r#"{"limit":12,"either":12,"text":"12"}"#)]);
}

/// No tool of the request has the name, and the client can tell the model so.
#[test]
fn calls_of_unknown_tools_are_calls() {
    assert_eq!(hermes().whole(&CALL.replace("now", "later")), [call("later", "{\"zone\": \"UTC\"}")]);
    let none = Setup { format: OutputFormat::of_template("no form of calls"), ..hermes() };
    assert_eq!(none.whole(CALL), [Part::Content(CALL.to_owned())]);
}
