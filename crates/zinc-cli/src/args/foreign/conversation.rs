//! Flags about the text: the context, the prompt and the conversation, and how tokens are chosen.

use super::Takes::{Switch, Value};
use super::{BUT_SERVE, Foreign, accepted, refused};

/// These flags, each command's in one entry.
pub(super) const FLAGS: &[Foreign] = &[
    // The context and the rotary embedding.
    accepted(
        &["--keep"],
        Value,
        "says how many tokens stay when the context is shifted",
        "zinc never shifts it: an answer ends where the context is full",
    ),
    accepted(&["--no-context-shift"], Switch, "ends an answer where the context is full", "zinc always does"),
    refused(
        &["--context-shift"],
        Switch,
        "forgets the oldest tokens where the context is full",
        "zinc ends the answer there: give more context with -c",
    ),
    accepted(
        &[
            "--rope-scaling",
            "--rope-scale",
            "--rope-freq-base",
            "--rope-freq-scale",
            "--yarn-orig-ctx",
            "--yarn-ext-factor",
            "--yarn-attn-factor",
            "--yarn-beta-slow",
            "--yarn-beta-fast",
        ],
        Value,
        "is about positions beyond the trained context",
        "nothing is computed with the model here",
    )
    .only_in(&["tokenize", "template"]),
    refused(&["-gan", "--grp-attn-n"], Value, "extends the context by self-extend", "zinc does not have it")
        .unless(&["1"]),
    accepted(
        &["-gaw", "--grp-attn-w"],
        Value,
        "is the width of self-extend, which -gan switches on",
        "zinc does not have it",
    ),
    // The prompt and the conversation.
    accepted(
        &["-cnv", "--conversation"],
        Switch,
        "uses the chat template and asks for the next message after each answer",
        "zinc run answers one prompt with the template; zinc chat holds a conversation",
    ),
    refused(&["-no-cnv", "--no-conversation"], Switch, "continues the text without a chat template", "give --raw")
        .only_in(&["run"]),
    refused(
        &["-no-cnv", "--no-conversation"],
        Switch,
        "continues the text without a chat template",
        "use zinc run --raw",
    )
    .only_in(&["chat"]),
    accepted(&["-st", "--single-turn"], Switch, "ends after one answer", "zinc run always does").only_in(&["run"]),
    refused(&["-st", "--single-turn"], Switch, "ends after one answer", "use zinc run").only_in(&["chat"]),
    refused(
        &["-p", "--prompt", "-f", "--file"],
        Value,
        "is the first message",
        "type it, add a file to a message with /read FILE, or use zinc run",
    )
    .only_in(&["chat"]),
    refused(
        &["-i", "--interactive", "-if", "--interactive-first", "-ins", "--instruct", "-cml", "--chatml"],
        Switch,
        "asks for more text after each answer",
        "use zinc chat",
    )
    .only_in(&["run"]),
    accepted(
        &["-i", "--interactive", "-if", "--interactive-first", "-ins", "--instruct"],
        Switch,
        "asks for more text after each answer",
        "zinc chat always does",
    )
    .only_in(&["chat"]),
    refused(&["-cml", "--chatml"], Switch, "chooses the template chatml", "give --chat-template chatml")
        .only_in(&["chat"]),
    accepted(
        &["-mli", "--multiline-input"],
        Switch,
        "lets a message have several lines",
        "zinc chat takes pasted lines as one message, and zinc run reads to the end of stdin",
    ),
    accepted(&["--simple-io"], Switch, "reads lines without editing them", "zinc run edits none").only_in(&["run"]),
    refused(
        &["--in-prefix", "--in-suffix"],
        Value,
        "writes text around each message in place of a chat template",
        "give a template with --chat-template-file, or the whole text with zinc run --raw",
    ),
    refused(
        &["--in-prefix-bos"],
        Switch,
        "writes the begin token before each message",
        "give a template with --chat-template-file",
    ),
    refused(
        &["-e", "--escape"],
        Switch,
        "reads \\n and the like in the prompt as the characters they stand for",
        "zinc takes the prompt as it is: write the newline itself, or give a file with -f",
    ),
    accepted(&["--no-escape"], Switch, "takes the prompt as it is written", "zinc always does"),
    refused(
        &["-bf", "--binary-file"],
        Value,
        "reads the prompt from a file without looking at its bytes",
        "zinc reads text in UTF-8: give it with -f",
    ),
    accepted(&["--jinja"], Switch, "renders the chat template of the file", "zinc always does"),
    refused(
        &["--no-jinja"],
        Switch,
        "uses a built-in template that resembles the one of the file",
        "name one with --chat-template",
    ),
    accepted(
        &["--skip-chat-parsing", "--no-skip-chat-parsing"],
        Switch,
        "takes thoughts and calls of tools out of the answer, or leaves them in",
        "zinc prints the answer as the model writes it",
    ),
    accepted(
        &["--reasoning-format"],
        Value,
        "says how thoughts are told apart from the answer",
        "zinc prints both as the model writes them",
    )
    .only_in(BUT_SERVE),
    refused(
        &["-rea", "--reasoning"],
        Switch,
        "has the model think first or not",
        "give --chat-template-kwargs '{\"enable_thinking\": false}', or the variable that the template reads",
    )
    .unless(&["auto"]),
    refused(
        &["--reasoning-effort"],
        Value,
        "tells the template how long the model should think",
        "give --chat-template-kwargs '{\"reasoning_effort\": \"low\"}', or the variable that the template reads",
    )
    .unless(&["default"]),
    refused(
        &["--reasoning-budget"],
        Value,
        "ends the thoughts of a model after so many tokens",
        "requests to zinc serve say it by reasoning_budget; --chat-template-kwargs '{\"enable_thinking\": false}' does without thoughts",
    )
    .unless(&["-1"]),
    accepted(
        &["--reasoning-budget-message"],
        Value,
        "is the text that ends thoughts which were cut",
        "zinc does not cut them",
    ),
    refused(
        &["--reasoning-preserve", "--no-reasoning-preserve"],
        Switch,
        "keeps the thoughts of earlier answers or not",
        "the template decides: give the variable that it reads with --chat-template-kwargs",
    ),
    accepted(
        &["--prompt-cache"],
        Value,
        "keeps the state after the prompt in a file for a faster start",
        "zinc computes the prompt anew",
    ),
    accepted(
        &["--prompt-cache-all", "--prompt-cache-ro"],
        Switch,
        "says what is kept in the file of --prompt-cache",
        "zinc computes the prompt anew",
    ),
    // How tokens are chosen.
    refused(
        &["--mirostat", "--dynatemp-range"],
        Value,
        "changes the temperature while it writes",
        "zinc has the samplers of docs/sampling.md",
    )
    .unless(&["0"]),
    accepted(
        &["--mirostat-lr", "--mirostat-ent", "--dynatemp-exp", "--adaptive-decay"],
        Value,
        "is a parameter of a sampler that another flag switches on",
        "zinc does not have that sampler",
    ),
    refused(
        &["--adaptive-target"],
        Value,
        "prefers tokens near a certain probability",
        "zinc has the samplers of docs/sampling.md",
    )
    .unless(&["-1"]),
    refused(
        &["--tfs", "--cfg-scale"],
        Value,
        "switches on a sampler that llama.cpp had once",
        "zinc has the samplers of docs/sampling.md",
    )
    .unless(&["1"]),
    refused(
        &["--cfg-negative-prompt", "--cfg-negative-prompt-file"],
        Value,
        "leads the answer away from a text",
        "zinc has the samplers of docs/sampling.md",
    ),
    accepted(
        &["--no-penalize-nl"],
        Switch,
        "takes newlines out of the penalties",
        "a newline is a token like any other; --repeat-penalty is off unless given",
    ),
    refused(&["--penalize-nl"], Switch, "counts newlines in the penalties", "zinc always does: leave the flag out"),
];
