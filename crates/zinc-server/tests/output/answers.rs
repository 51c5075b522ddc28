//! One table of answers for each form, each parsed as a whole and in all cuts that are tried.

use serde_json::{Value, json};
use zinc_model::template::builtin;
use zinc_server::output::OutputFormat;

use super::cuts::same_for_cuts;
use super::support::{
    ASSISTANT, Part, Setup, after, call, content, deepseek, hermes, llama, reasoning, tool, unfinished, without_tools,
    xml,
};

/// Parses each answer and compares its parts.
fn check(setup: &Setup, answers: &[(&str, &[Part])]) {
    for (text, expected) in answers {
        assert_eq!(setup.whole(text), *expected, "{text:?}");
        same_for_cuts(setup, text);
    }
}

#[test]
fn reasoning_and_content() {
    let answers: &[(&str, &[Part])] = &[
        ("", &[]),
        ("Hello, world.\n", &[content("Hello, world.\n")]),
        (" \n", &[content(" \n")]),
        ("\n  Hello", &[content("\n  Hello")]),
        ("<think>\nA.\n\nB.\n</think>\n\nHello.", &[reasoning("A.\n\nB."), content("Hello.")]),
        (" \n<think>A</think>B", &[reasoning("A"), content("B")]),
        ("<think>\n\n</think>\n\nHello.", &[content("Hello.")]),
        ("<think>A</think>\n \n    indented\n", &[reasoning("A"), content("    indented\n")]),
        ("<think>A</think>\n\n", &[reasoning("A")]),
        ("<think>A</think><think>B</think>C", &[reasoning("AB"), content("C")]),
        ("<think>A", &[reasoning("A")]),
        ("<think>A</thin", &[reasoning("A</thin")]),
        ("<think>A\n", &[reasoning("A\n")]),
        ("<think>\n", &[]),
        ("<thin", &[content("<thin")]),
        ("<think", &[content("<think")]),
        ("A <think>B</think> C", &[content("A <think>B</think> C")]),
        ("A</think>", &[content("A</think>")]),
        ("</think>\n\nA", &[content("</think>\n\nA")]),
        ("a < b << c <|x|> </ d <tool> </tool_call>", &[content("a < b << c <|x|> </ d <tool> </tool_call>")]),
        ("<<think>", &[content("<<think>")]),
        ("naïve 日本語 😀<", &[content("naïve 日本語 😀<")]),
    ];
    check(&hermes(), answers);
    check(&without_tools(xml()), answers);
}

#[test]
fn reasoning_that_the_prompt_has_begun_or_ended() {
    check(
        &after("<|im_start|>assistant\n<think>\n", hermes()),
        &[
            ("A.\n</think>\n\nHello.", &[reasoning("A."), content("Hello.")]),
            ("\n\nA.", &[reasoning("A.")]),
            ("<think>\nA.</think>B", &[reasoning("A."), content("B")]),
            ("A <think>B</think>C", &[reasoning("A <think>B"), content("C")]),
            ("</think>A", &[content("A")]),
            ("", &[]),
        ],
    );
    check(
        &after("<|im_start|>assistant\n<think>\n\n</think>\n\n", hermes()),
        &[("Hello.", &[content("Hello.")]), ("<think>A</think>B", &[reasoning("A"), content("B")])],
    );
}

#[test]
fn hermes_calls() {
    const OPEN: &str = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    check(
        &hermes(),
        &[
            (OPEN, &[call("now", "{}")]),
            (
                "<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
                &[reasoning("Hm."), content("I look."), call("weather", "{\"city\": \"Rome\"}")],
            ),
            (&format!("{OPEN}\n{OPEN}{OPEN}"), &[call("now", "{}"), call("now", "{}"), call("now", "{}")]),
            (&format!("{OPEN}\n\nDone."), &[call("now", "{}"), content("Done.")]),
            // White space, other orders, other names of members, arguments in a string, none at all.
            (
                "<tool_call>{\"name\":\"now\",\"arguments\":{ \"a\" : [1,\t2] }}</tool_call>",
                &[call("now", "{ \"a\" : [1,\t2] }")],
            ),
            ("<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"now\"}</tool_call>", &[call("now", "{\"a\": 1}")]),
            (
                "<tool_call>{\"id\": 7, \"x\": [{}], \"name\": \"now\", \"parameters\": {}}</tool_call>",
                &[call("now", "{}")],
            ),
            (
                r#"<tool_call>{"name": "now", "arguments": "{\"a\": \"\\\"\"}"}</tool_call>"#,
                &[call("now", r#"{"a": "\""}"#)],
            ),
            ("<tool_call>{\"name\": \"now\", \"arguments\": \"\"}</tool_call>", &[call("now", "{}")]),
            ("<tool_call>{\"name\": \"now\", \"arguments\": null}</tool_call>", &[call("now", "{}")]),
            ("<tool_call>{\"name\": \"now\"}</tool_call>", &[call("now", "{}")]),
            ("<tool_call>{\"name\": \"n\\u006fw\", \"arguments\": {}}</tool_call>", &[call("now", "{}")]),
            // Strings may contain what looks like the end, and characters that JSON wants escaped.
            (
                "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"}</tool_call>\\\"\"}}</tool_call>",
                &[call("now", "{\"a\": \"}</tool_call>\\\"\"}")],
            ),
            (
                "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"1\n\t2\"}}</tool_call>",
                &[call("now", "{\"a\": \"1\\n\\t2\"}")],
            ),
            // The end of the arguments is the end of the call.
            ("<tool_call>{\"name\": \"now\", \"arguments\": {}}", &[call("now", "{}")]),
            ("<tool_call>{\"name\": \"now\", \"arguments\": {}}\n</tool_c", &[call("now", "{}"), content("</tool_c")]),
            ("<tool_call>{\"name\": \"now\", \"arguments\": {}}}\n</tool_call>", &[call("now", "{}"), content("}")]),
            // Two objects in one tag.
            (
                "<tool_call>{\"name\": \"now\"}\n{\"name\": \"now\"}</tool_call>x",
                &[call("now", "{}"), call("now", "{}"), content("x")],
            ),
            // A name that no tool has.
            ("<tool_call>{\"name\": \"a.b-c:d/1\", \"arguments\": {}}</tool_call>", &[call("a.b-c:d/1", "{}")]),
            // The XML form where the template shows JSON.
            ("<tool_call><function=now></function></tool_call>", &[call("now", "{}")]),
        ],
    );
}

#[test]
fn hermes_texts_that_are_no_calls() {
    let same = |text: &str| {
        assert_eq!(hermes().whole(text), [content(text)]);
        same_for_cuts(&hermes(), text);
    };
    for text in [
        "<tool_call>",
        "<tool_call",
        "A <tool_call> is a tag.",
        "<tool_call>\n\n</tool_call>",
        "<tool_call>\n{\"na",
        "<tool_call>\n{\"name\": \"now\", \"arguments\"",
        "<tool_call>{\"name\": \"no w\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"name\": \"now\", \"arguments\": \"[1]\"}</tool_call>",
        "<tool_call>{\"name\": \"now\", \"arguments\": \"{\"}</tool_call>",
        "<tool_call>{\"name\": \"now\", \"name\": \"now\"}</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "<tool_call>{'name': 'now'}</tool_call>",
        "<tool_call>{}</tool_call>",
        "<tool_call>[{\"name\": \"now\"}]</tool_call>",
        "<function=now></function>",
        "{\"name\": \"now\", \"arguments\": {}}",
    ] {
        same(text);
    }
    check(
        &hermes(),
        &[
            ("<tool_call>\n<tool_call>{\"name\": \"now\"}</tool_call>", &[content("<tool_call>"), call("now", "{}")]),
            // What was delivered stays, and the rest is content.
            (
                "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": tru}}</tool_call>\nSorry.",
                &[unfinished("now", "{\"a\": tru"), content("}}\nSorry.")],
            ),
            (
                "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": <tool_call>{\"name\": \"now\"}</tool_call>",
                &[unfinished("now", "{\"a\": "), call("now", "{}")],
            ),
            ("<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"b", &[unfinished("now", "{\"a\": \"b")]),
            (
                "<tool_call>{\"name\": \"now\", \"arguments\": {}, \"name\": \"x\"}</tool_call>",
                &[unfinished("now", "{}"), content("\": \"x\"}")],
            ),
            (
                "<think>A <tool_call>{\"name\": \"now\"}</tool_call>",
                &[reasoning("A <tool_call>{\"name\": \"now\"}</tool_call>")],
            ),
        ],
    );
    let text = "<tool_call>{\"name\": \"now\"}</tool_call>";
    check(&without_tools(hermes()), &[(text, &[content(text)])]);
}

#[test]
fn xml_calls() {
    let weather = |parameters: &str| format!("<tool_call>\n<function=weather>\n{parameters}</function>\n</tool_call>");
    let parameter = |key: &str, value: &str| format!("<parameter={key}>\n{value}\n</parameter>\n");
    let answers = [
        (weather(""), "{}"),
        (weather(&parameter("city", "Rome")), r#"{"city":"Rome"}"#),
        (weather(&(parameter("city", "42") + &parameter("days", "42"))), r#"{"city":"42","days":42}"#),
        (weather(&parameter("days", "null")), r#"{"days":null}"#),
        (weather(&parameter("days", "soon")), r#"{"days":"soon"}"#),
        (weather(&parameter("exact", "True")), r#"{"exact":true}"#),
        (weather(&parameter("note", "null")), r#"{"note":null}"#),
        (weather(&parameter("note", "nullify")), r#"{"note":"nullify"}"#),
        (weather(&parameter("note", "")), r#"{"note":""}"#),
        (weather(&parameter("tags", "[\"a\",\n \"b\"]")), "{\"tags\":[\"a\",\n \"b\"]}"),
        (weather(&parameter("tags", "a, b")), r#"{"tags":"a, b"}"#),
        (weather(&parameter("unit", "1")), r#"{"unit":1}"#),
        (weather(&parameter("unit", "C")), r#"{"unit":"C"}"#),
        (weather(&parameter("where", r#"{"x": {"y": 1.50}}"#)), r#"{"where":{"x": {"y": 1.50}}}"#),
        (weather(&parameter("unheard of", "[1]")), r#"{"unheard of":[1]}"#),
        (weather(&parameter("city", "\n a \n")), r#"{"city":"\n a \n"}"#),
        (
            weather(&parameter("city", "a < b </param> </function> \"\\\u{1}\n<")),
            r#"{"city":"a < b </param> </function> \"\\\u0001\n<"}"#,
        ),
        (
            weather(&parameter("city", "\n<parameter=city>\n</function>\nx")),
            r#"{"city":"\n<parameter=city>\n</function>\nx"}"#,
        ),
        (
            "<tool_call><function=weather><parameter=city>Rome</parameter></function></tool_call>".to_owned(),
            r#"{"city":"Rome"}"#,
        ),
        // Closing tags that are missing.
        (
            "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</function>\n</tool_call>".to_owned(),
            r#"{"city":"Rome"}"#,
        ),
        (
            "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n<parameter=days>\n2\n</parameter>\n</tool_call>"
                .to_owned(),
            r#"{"city":"Rome","days":2}"#,
        ),
        (
            "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n</function>".to_owned(),
            r#"{"city":"Rome"}"#,
        ),
        // The opening tag that is missing.
        (
            "<function=weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>".to_owned(),
            r#"{"city":"Rome"}"#,
        ),
        // Arguments as JSON.
        ("<function=weather>{\"city\": \"Rome\"}</function>".to_owned(), r#"{"city": "Rome"}"#),
        (
            "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}</tool_call>".to_owned(),
            r#"{"city": "Rome"}"#,
        ),
    ];
    for (text, arguments) in &answers {
        check(&xml(), &[(text, &[call("weather", arguments)])]);
    }
    let two = weather(&parameter("city", "Rome")) + "\n" + &weather("");
    check(&xml(), &[(&two, &[call("weather", r#"{"city":"Rome"}"#), call("weather", "{}")])]);
    check(
        &xml(),
        &[(
            "So:\n<tool_call>\n<function=other>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>\nOk",
            &[content("So:"), call("other", "{\"n\":1}"), content("Ok")],
        )],
    );
}

#[test]
fn xml_texts_that_are_no_calls() {
    for text in [
        "<tool_call>\n<function=",
        "<tool_call>\n<function=weather",
        "<tool_call>\n<function=weather>\n",
        "<tool_call>\n<function=weather>\n<parameter=ci",
        "<tool_call>\n<function=weather>\n<parameter=>x</parameter>",
        "<tool_call>\n<function=we ather>\n</function>",
        "<tool_call>\n<function>weather</function>",
        "<function=other>\n</function>",
        "<function=weather>\nHello.",
        "<tool_call>\n<function=weather>\nHello.</function>\n</tool_call>",
    ] {
        assert_eq!(xml().whole(text), [content(text)]);
        same_for_cuts(&xml(), text);
    }
    check(
        &xml(),
        &[
            ("<function=weather><parameter=city>Ro", &[unfinished("weather", "{\"city\":\"Ro")]),
            ("<function=weather><parameter=city>", &[unfinished("weather", "{\"city\":")]),
            ("<function=weather><parameter=city>Rome</parameter>", &[unfinished("weather", "{\"city\":\"Rome\"")]),
            ("<function=weather><parameter=days>1", &[unfinished("weather", "{\"days\":1")]),
            ("<function=weather><parameter=days>1 ", &[unfinished("weather", "{\"days\":1")]),
            ("<function=weather><parameter=where>{\"a\"", &[unfinished("weather", "{\"where\":\"{\\\"a\\\"")]),
            (
                "<tool_call><function=weather><parameter=city>Rome</parameter>Hello</function></tool_call>",
                &[unfinished("weather", "{\"city\":\"Rome\""), content("Hello</function>")],
            ),
            (
                "<function=weather><parameter=days>1</parameter><parameter=a\nb>2</parameter>",
                &[unfinished("weather", "{\"days\":1"), content("b>2</parameter>")],
            ),
        ],
    );
}

#[test]
fn deepseek_calls() {
    const V3: &str =
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Rome\"}\n```<｜tool▁call▁end｜>";
    const V3_1: &str = "<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Rome\"}<｜tool▁call▁end｜>";
    let rome = || call("weather", "{\"city\": \"Rome\"}");
    let all = |calls: &str| format!("Hm.\n</think>\n\n<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>");
    check(
        &deepseek(),
        &[
            (&all(V3), &[reasoning("Hm."), rome()]),
            (&all(V3_1), &[reasoning("Hm."), rome()]),
            (&all(&format!("{V3}\n{V3}")), &[reasoning("Hm."), rome(), rome()]),
            (&all(&V3_1.repeat(3)), &[reasoning("Hm."), rome(), rome(), rome()]),
            (&format!("{} Done.", all(V3)), &[reasoning("Hm."), rome(), content(" Done.")]),
            (&format!("</think>Look: {V3}"), &[content("Look:"), rome()]),
            (&all(&V3.replace("json", "")), &[reasoning("Hm."), rome()]),
            (&all(&V3.replace("```json\n", "").replace("\n```", "")), &[reasoning("Hm."), rome()]),
            (
                "</think><｜tool_calls_begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Rome\"}\n```",
                &[rome()],
            ),
            ("</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{}", &[call("function", "{}")]),
            (&format!("</think>{V3_1}\n```json\n{{}}\n```"), &[rome(), content("```json\n{}\n```")]),
            (
                "</think><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": Rome}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                &[unfinished("weather", "{\"city\": "), content("Rome}")],
            ),
        ],
    );
    for text in [
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁begin｜>nothing",
        "<｜tool▁call▁begin｜>weather",
        "<｜tool▁call▁begin｜>weather<｜tool▁sep",
        "<｜tool▁call▁begin｜>weather<｜tool▁sep｜>Rome",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\nRome",
        "<｜tool▁call▁begin｜>we ather<｜tool▁sep｜>{}",
        "<｜tool▁calls▁end｜> <｜tool▁call▁end｜> ```",
    ] {
        check(&deepseek(), &[(&format!("</think>{text}"), &[content(text)])]);
    }
}

#[test]
fn llama_calls() {
    check(
        &llama(),
        &[
            ("{\"name\": \"now\", \"parameters\": {}}", &[call("now", "{}")]),
            (
                "\n{\"type\": \"function\", \"name\": \"now\", \"parameters\": {\"a\": 1}}\n",
                &[call("now", "{\"a\": 1}")],
            ),
            ("<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", &[call("now", "{}")]),
            ("<|python_tag|>{\"name\": \"other\", \"parameters\": {}}", &[call("other", "{}")]),
            ("I look. <|python_tag|>{\"name\": \"now\", \"parameters\": {}}", &[content("I look."), call("now", "{}")]),
            (
                "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}",
                &[call("now", "{}"), call("now", "{}")],
            ),
            ("{\"name\": \"now\", \"parameters\": {}}; and", &[call("now", "{}"), content("; and")]),
            ("{\"name\": \"now\", \"parameters\": {\"a\": b}}", &[unfinished("now", "{\"a\": "), content("b}}")]),
        ],
    );
    for text in [
        "{\"name\": \"Ada\", \"parameters\": {}}",
        "{\"name\": \"now\"}",
        "{\"name\": \"now\", \"age\": 36}",
        "{\"people\": [{\"name\": \"now\", \"parameters\": {}}]}",
        "So: {\"name\": \"now\", \"parameters\": {}}",
        "{\"name\": \"now\", \"para",
        "{",
        "<|python_tag|>print(1)",
        "<|python_tag|>",
    ] {
        check(&llama(), &[(text, &[content(text)])]);
    }
}

/// The name and the arguments of a call in a message, as templates are given it.
fn given(call: &Value) -> (String, Value) {
    let call = call.get("function").unwrap_or(call);
    let arguments = match &call["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        Value::Null => json!({}),
        arguments => arguments.clone(),
    };
    (call["name"].as_str().unwrap().to_owned(), arguments)
}

/// The messages of the model in a conversation, and the parts that are read from the turns of its prompt, in which their last mark is left out.
fn turns<'c>(setup: &Setup, messages: &'c Value, prompt: &str) -> Vec<(&'c Value, Vec<Part>)> {
    let messages = messages.as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
    let turns = prompt.split(ASSISTANT).skip(1).map(|turn| setup.whole(turn.split("<|im_end|>").next().unwrap()));
    messages.zip(turns).collect()
}

/// The calls among parts, with their arguments read.
fn calls_of(parts: &[Part]) -> Vec<(String, Value)> {
    let call = |part: &Part| match part {
        Part::Call(name, arguments, true) => Some((name.clone(), serde_json::from_str(arguments).unwrap())),
        _ => None,
    };
    parts.iter().filter_map(call).collect()
}

fn read(name: &str) -> String {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/host/");
    std::fs::read_to_string(format!("{data}{name}")).unwrap()
}

/// Qwen3's own template writes calls, which are read again.
#[test]
fn calls_that_the_template_writes_are_read() {
    let setup = Setup { format: OutputFormat::of_template(&read("qwen3_chat_template.jinja")), ..hermes() };
    let cases: Vec<Value> = serde_json::from_str(&read("qwen3_chat.json")).unwrap();
    let mut found = 0;
    for case in &cases {
        for (message, parts) in turns(&setup, &case["input"]["messages"], case["rendered"].as_str().unwrap()) {
            let written: Vec<_> = message["tool_calls"].as_array().into_iter().flatten().map(given).collect();
            assert_eq!(calls_of(&parts), written);
            found += written.len();
        }
    }
    assert!(found >= 2, "{found} calls");
}

/// The templates of Qwen3.5, 3.6 and 3.8 write thoughts, texts and calls, which are read again with the types of the tools' schemas.
#[test]
fn turns_that_the_templates_of_qwen3_5_write_are_read() {
    let golden: Value = serde_json::from_str(&read("qwen3_5_chat.json")).unwrap();
    for name in ["qwen3.5", "qwen3.6", "qwen3.8"] {
        let format = OutputFormat::of_template(&builtin(name).unwrap());
        let (mut calls, mut thoughts) = (0, 0);
        for case in golden["cases"].as_array().unwrap() {
            let (input, Some(prompt)) = (&case["input"], case["rendered"][name].as_str()) else { continue };
            let tools = input["tools"].as_array().into_iter().flatten().map(|own| {
                let function = &own["function"];
                tool(function["name"].as_str().unwrap(), function["parameters"].clone())
            });
            let setup = Setup { format: format.clone(), tools: tools.collect(), tail: ASSISTANT };
            for (message, parts) in turns(&setup, &input["messages"], prompt) {
                let written: Vec<_> = message["tool_calls"].as_array().into_iter().flatten().map(given).collect();
                assert_eq!(calls_of(&parts), written, "{name}: {prompt}");
                calls += written.len();
                let content = message["content"].as_str().unwrap_or_default();
                // Tags in the content are read as such by the templates or by the parser.
                if content.contains("think>") || message["content"].is_array() {
                    continue;
                }
                let said: Vec<&Part> = parts.iter().filter(|part| matches!(part, Part::Content(_))).collect();
                let expected = self::content(content);
                assert_eq!(said, if content.is_empty() { vec![] } else { vec![&expected] }, "{name}: {prompt}");
                if let Some(Part::Reasoning(thought)) = parts.first() {
                    assert_eq!(thought, message["reasoning_content"].as_str().unwrap().trim(), "{name}: {prompt}");
                    thoughts += 1;
                }
            }
            for turn in prompt.split(ASSISTANT).skip(1) {
                same_for_cuts(&setup, turn.split("<|im_end|>").next().unwrap());
            }
        }
        assert!(calls >= 20 && thoughts >= 5, "{name}: {calls} calls, {thoughts} thoughts");
    }
}

/// Where the prompt has begun the thinking, as Qwen3.5's does, an answer has no opening tag.
#[test]
fn xml_calls_behind_a_thought_that_the_prompt_has_begun() {
    let setup = after("<|im_start|>assistant\n<think>\n", xml());
    let call_of = |value: &str| {
        format!("<tool_call>\n<function=weather>\n<parameter=city>\n{value}\n</parameter>\n</function>\n</tool_call>")
    };
    let (rome, lines) = (call_of("Rome"), call_of("  one\n\ntwo\n"));
    check(
        &setup,
        &[
            (&format!("Hm.\n</think>\n\n{rome}"), &[reasoning("Hm."), call("weather", r#"{"city":"Rome"}"#)]),
            (
                &format!("Hm.\n</think>\n\nI look.\n\n{rome}\n{lines}"),
                &[
                    reasoning("Hm."),
                    content("I look."),
                    call("weather", r#"{"city":"Rome"}"#),
                    call("weather", r#"{"city":"  one\n\ntwo\n"}"#),
                ],
            ),
            (&format!("{rome} is a call"), &[reasoning(&format!("{rome} is a call"))]),
            ("\n</think>\n\nHi.", &[content("Hi.")]),
            ("Hm.\n</think>\n\n<tool_call>\nHi.", &[reasoning("Hm."), content("<tool_call>\nHi.")]),
        ],
    );
}
