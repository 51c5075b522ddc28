//! Chat templates with a name: those that llama.cpp has built in, as Jinja.
//!
//! They write what llama.cpp's `llama_chat_apply_template` writes for the same name. `gpt-oss` writes harmony, as OpenAI's own renderer does, and `qwen3.5`,
//! `qwen3.6` and `qwen3.8` write what the templates published with these models do, all with tools and thoughts. The begin token is not among it: the
//! tokenizer adds that where the model wants one.

/// The template of this name.
pub fn builtin(name: &str) -> Option<String> {
    BUILTIN.iter().find(|(own, _)| *own == name).map(|(_, parts)| parts.concat())
}

/// The names that [`builtin`] knows.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

/// Each name with the parts of its template.
const BUILTIN: &[(&str, &[&str])] = &[
    (
        "bailing",
        &[
            r"{% for m in messages %}{{ '<role>' + ('HUMAN' if m.role == 'user' else m.role | upper) + '</role>' + m.content }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<role>ASSISTANT</role>' }}{% endif %}",
        ],
    ),
    (
        "chatglm3",
        &[
            "[gMASK]sop",
            r"{% for m in messages %}{{ '<|' + m.role + '|>\n ' + m.content }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
        ],
    ),
    (
        "chatglm4",
        &["[gMASK]<sop>", ROLE_LINE_CONTENT, r"{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"],
    ),
    (
        "chatml",
        &[
            r"{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        ],
    ),
    (
        "command-r",
        &[
            r"{% set names = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'} %}",
            r"{% for m in messages if m.role in names %}{{ '<|START_OF_TURN_TOKEN|><|' + names[m.role] + '_TOKEN|>' + m.content | trim + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}",
        ],
    ),
    (
        "deepseek",
        &[
            r"{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}",
            r"{% elif m.role == 'user' %}{{ '### Instruction:\n' + m.content + '\n' }}",
            r"{% elif m.role == 'assistant' %}{{ '### Response:\n' + m.content + '\n<|EOT|>\n' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}",
        ],
    ),
    (
        "deepseek2",
        &[
            r"{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\n\n' }}",
            r"{% elif m.role == 'user' %}{{ 'User: ' + m.content + '\n\n' }}",
            r"{% elif m.role == 'assistant' %}{{ 'Assistant: ' + m.content + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
        ],
    ),
    (
        "deepseek3",
        &[
            r"{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\n\n' }}",
            r"{% elif m.role == 'user' %}{{ '<｜User｜>' + m.content }}",
            r"{% elif m.role == 'assistant' %}{{ '<｜Assistant｜>' + m.content + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}",
        ],
    ),
    (
        "exaone3",
        &[
            r"{% for m in messages %}{% if m.role == 'system' %}{{ '[|system|]' + m.content | trim + '[|endofturn|]\n' }}",
            r"{% elif m.role == 'user' %}{{ '[|user|]' + m.content | trim + '\n' }}",
            r"{% elif m.role == 'assistant' %}{{ '[|assistant|]' + m.content | trim + '[|endofturn|]\n' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}",
        ],
    ),
    (
        "exaone4",
        &[
            r"{% for m in messages %}{% if m.role == 'user' %}{{ '[|user|]' + m.content | trim + '\n' }}",
            r"{% elif m.role in ['system', 'assistant', 'tool'] %}{{ '[|' + m.role + '|]' + m.content | trim + '[|endofturn|]\n' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}",
        ],
    ),
    (
        "falcon3",
        &[
            r"{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '\n' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
        ],
    ),
    (
        "gemma",
        &[
            r"{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = ns.system + m.content | trim %}{% else %}",
            r"{% set role = 'model' if m.role == 'assistant' else m.role %}{{ '<start_of_turn>' + role + '\n' }}",
            r"{% if ns.system and role != 'model' %}{{ ns.system + '\n\n' }}{% set ns.system = '' %}{% endif %}",
            r"{{ m.content | trim + '<end_of_turn>\n' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
        ],
    ),
    ("glmedge", &[ROLE_LINE_CONTENT, r"{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"]),
    ("gpt-oss", &[include_str!("gpt_oss.jinja")]),
    ("llama2", &[r"{% set wrap = false %}{% set begin = '' %}{% set strip = false %}", LLAMA2]),
    ("llama2-sys", &[r"{% set wrap = true %}{% set begin = '' %}{% set strip = false %}", LLAMA2]),
    ("llama2-sys-bos", &[r"{% set wrap = true %}{% set begin = '<s>' %}{% set strip = false %}", LLAMA2]),
    ("llama2-sys-strip", &[r"{% set wrap = true %}{% set begin = '' %}{% set strip = true %}", LLAMA2]),
    (
        "llama3",
        &[
            r"{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
        ],
    ),
    (
        "llama4",
        &[
            r"{% for m in messages %}{{ '<|header_start|>' + m.role + '<|header_end|>\n\n' + m.content | trim + '<|eot|>' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|header_start|>assistant<|header_end|>\n\n' }}{% endif %}",
        ],
    ),
    (
        "megrez",
        &[
            r"{% for m in messages %}{{ '<|role_start|>' + m.role + '<|role_end|>' + m.content + '<|turn_end|>' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|role_start|>assistant<|role_end|>' }}{% endif %}",
        ],
    ),
    (
        "minicpm",
        &[
            r"{% for m in messages %}{% if m.role == 'user' %}{{ '<用户>' + m.content | trim + '<AI>' }}{% else %}{{ m.content | trim }}{% endif %}{% endfor %}",
        ],
    ),
    ("mistral-v1", &[r"{% set lead = ' ' %}{% set trail = ' ' %}{% set strip = false %}", MISTRAL]),
    ("mistral-v3", &[r"{% set lead = '' %}{% set trail = ' ' %}{% set strip = true %}", MISTRAL]),
    ("mistral-v3-tekken", &[r"{% set lead = '' %}{% set trail = '' %}{% set strip = false %}", MISTRAL]),
    ("mistral-v7", &[r"{% set trail = ' ' %}", MISTRAL_7]),
    ("mistral-v7-tekken", &[r"{% set trail = '' %}", MISTRAL_7]),
    (
        "monarch",
        &[
            r"{% for m in messages %}{{ ('' if loop.first else '<s>') + m.role + '\n' + m.content + '</s>\n' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}",
        ],
    ),
    (
        "openchat",
        &[
            r"{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '<|end_of_turn|>' }}{% else %}{{ 'GPT4 Correct ' + m.role | capitalize + ': ' + m.content + '<|end_of_turn|>' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %}",
        ],
    ),
    (
        "orion",
        &[
            r"{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = ns.system + m.content %}",
            r"{% elif m.role == 'user' %}{{ 'Human: ' }}{% if ns.system %}{{ ns.system + '\n\n' }}{% set ns.system = '' %}{% endif %}{{ m.content + '\n\nAssistant: </s>' }}",
            r"{% else %}{{ m.content + '</s>' }}{% endif %}{% endfor %}",
        ],
    ),
    (
        "phi3",
        &[
            r"{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
        ],
    ),
    (
        "phi4",
        &[
            r"{% for m in messages %}{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}",
        ],
    ),
    ("qwen3.5", &["{%- set version = 5 -%}", QWEN3_5]),
    ("qwen3.6", &["{%- set version = 6 -%}", QWEN3_5]),
    ("qwen3.8", &["{%- set version = 8 -%}", QWEN3_5]),
    (
        "smolvlm",
        &[
            "<|im_start|>",
            r"{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\n\n' }}",
            r"{% elif m.role == 'user' %}{{ 'User: ' + m.content + '<end_of_utterance>\n' }}",
            r"{% else %}{{ 'Assistant: ' + m.content + '<end_of_utterance>\n' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
        ],
    ),
    ("vicuna", &[r"{% set system = '' %}{% set after = '\n\n' %}", VICUNA]),
    ("vicuna-orca", &[r"{% set system = 'SYSTEM: ' %}{% set after = '\n' %}", VICUNA]),
    (
        "yandex",
        &[
            r"{% for m in messages %}{% if m.role == 'user' %}{{ ' Пользователь: ' + m.content + '\n\n' }}",
            r"{% elif m.role == 'assistant' %}{{ ' Ассистент: ' + m.content + '\n\n' }}{% endif %}{% endfor %}",
            r"{% if add_generation_prompt %}{{ ' Ассистент:[SEP]' }}{% endif %}",
        ],
    ),
    (
        "zephyr",
        &[
            r"{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|endoftext|>\n' }}{% endfor %}",
            r"{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
        ],
    ),
];

/// Each message behind its role and a newline.
const ROLE_LINE_CONTENT: &str = r"{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content }}{% endfor %}";

/// Llama 2: `wrap` puts system messages between marks, `begin` comes before each turn but the first, `strip` trims contents.
const LLAMA2: &str = r"{% set ns = namespace(inside=true) %}[INST] {% for m in messages %}{% set content = m.content | trim if strip else m.content %}{% if not ns.inside %}{% set ns.inside = true %}{{ begin + '[INST] ' }}{% endif %}{% if m.role == 'system' %}{{ '<<SYS>>\n' + content + '\n<</SYS>>\n\n' if wrap else content + '\n' }}{% elif m.role == 'user' %}{{ content + ' [/INST]' }}{% else %}{{ content + '</s>' }}{% set ns.inside = false %}{% endif %}{% endfor %}";

/// Mistral up to its third version: `lead` comes before the marks of a turn, `trail` behind them, `strip` trims answers.
const MISTRAL: &str = r"{% set ns = namespace(inside=false) %}{% for m in messages %}{% if not ns.inside %}{{ lead + '[INST]' + trail }}{% set ns.inside = true %}{% endif %}{% if m.role == 'system' %}{{ m.content + '\n\n' }}{% elif m.role == 'user' %}{{ m.content + lead + '[/INST]' }}{% else %}{{ trail + (m.content | trim if strip else m.content) + '</s>' }}{% set ns.inside = false %}{% endif %}{% endfor %}";

/// Mistral's seventh version: `trail` comes behind the marks.
const MISTRAL_7: &str = r"{% for m in messages %}{% if m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + trail + m.content + '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}{{ '[INST]' + trail + m.content + '[/INST]' }}{% else %}{{ trail + m.content + '</s>' }}{% endif %}{% endfor %}";

/// Qwen3.5 and its successors: `version` is the number behind "3.".
const QWEN3_5: &str = include_str!("qwen3_5.jinja");

/// Vicuna: `system` comes before a system message, `after` behind it.
const VICUNA: &str = r"{% for m in messages %}{% if m.role == 'system' %}{{ system + m.content + after }}{% elif m.role == 'user' %}{{ 'USER: ' + m.content + '\n' }}{% elif m.role == 'assistant' %}{{ 'ASSISTANT: ' + m.content + '</s>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}";

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{ChatInput, ChatTemplate};

    #[test]
    fn each_template_writes_what_llama_cpp_writes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/host/builtin_templates.json");
        let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let conversations = golden["conversations"].as_array().unwrap();
        assert!(builtin_names().is_sorted() && builtin_names().count() >= 37);
        let mut different = Vec::new();
        // llama.cpp's gpt-oss leaves out the system message, the channels and the tools, and it has none for Qwen3.5.
        let others = ["gpt-oss", "qwen3.5", "qwen3.6", "qwen3.8"];
        for name in builtin_names().filter(|name| !others.contains(name)) {
            let template = ChatTemplate::new(&builtin(name).unwrap()).unwrap();
            let expected = golden["rendered"][name].as_array().unwrap_or_else(|| panic!("llama.cpp has no {name}"));
            assert_eq!(expected.len(), 2 * conversations.len());
            let cases = conversations.iter().flat_map(|messages| [(messages, true), (messages, false)]);
            for ((messages, add_generation_prompt), expected) in cases.zip(expected) {
                let input = ChatInput { messages: messages.clone(), add_generation_prompt, ..ChatInput::default() };
                let rendered = template.render(&input).unwrap();
                if rendered != expected.as_str().unwrap() {
                    different.push(format!("{name} writes {rendered:?} and not {expected}"));
                }
            }
        }
        assert!(different.is_empty(), "{different:#?}");
        assert_eq!(builtin("nonsense"), None);
    }
}
