//! Flags of `llama-server` that `zinc serve` does not have.

use super::Takes::{Switch, Value};
use super::{Foreign, accepted, refused};

pub(super) const FLAGS: &[Foreign] = &[
    accepted(
        &["--metrics", "--props", "--slots", "--no-slots"],
        Switch,
        "says which paths there are",
        "zinc serve always has /metrics, /props and /slots, behind the key if there is one",
    )
    .only_in(&["serve"]),
    accepted(
        &["--no-ui", "--no-webui", "--no-ui-mcp-proxy", "--no-webui-mcp-proxy", "-no-ag", "--no-agent"],
        Switch,
        "leaves out its page",
        "zinc serve has none",
    )
    .only_in(&["serve"]),
    refused(
        &["--ui", "--webui", "--ui-mcp-proxy", "--webui-mcp-proxy", "-ag", "--agent"],
        Switch,
        "shows a page",
        "zinc serve has none; Open WebUI and others speak to it",
    )
    .only_in(&["serve"]),
    refused(
        &["--ui-config", "--webui-config", "--ui-config-file", "--webui-config-file", "--path", "--tools-runtime"],
        Value,
        "is about its page",
        "zinc serve has none",
    )
    .only_in(&["serve"]),
    refused(
        &["--mcp-servers-config", "--mcp-servers-json", "--media-path"],
        Value,
        "gives the model tools and files of the server",
        "the client runs tools and reads files",
    )
    .only_in(&["serve"]),
    refused(
        &["--models-dir", "--models-preset", "--models-max", "--server-base", "--sleep-idle-seconds"],
        Value,
        "serves several models in turn",
        "zinc serve has one, given by -m",
    )
    .only_in(&["serve"]),
    accepted(
        &["--models-autoload", "--no-models-autoload", "--lora-init-without-apply"],
        Switch,
        "says what is loaded when",
        "zinc serve loads its model at the start",
    )
    .only_in(&["serve"]),
    refused(
        &["--ssl-key-file", "--ssl-cert-file"],
        Value,
        "encrypts connections",
        "put a reverse proxy such as Caddy or nginx before zinc serve",
    )
    .only_in(&["serve"]),
    refused(&["--api-prefix"], Value, "puts all paths below another", "a reverse proxy can do that").only_in(&["serve"]),
    refused(&["--slot-save-path"], Value, "keeps caches in files", "zinc keeps them in the device's memory")
        .only_in(&["serve"]),
    accepted(
        &["--tags", "--threads-http", "--cors-methods", "--cors-headers", "-sps", "--slot-prompt-similarity"],
        Value,
        "says how it goes about its work",
        "zinc serve needs no such advice",
    )
    .only_in(&["serve"]),
    accepted(
        &["--reuse-port", "--cors-credentials", "--no-cors-credentials", "--prefill-assistant"],
        Switch,
        "says how it goes about its work",
        "zinc serve needs no such advice, and continues an answer that the conversation ends with",
    )
    .only_in(&["serve"]),
    refused(
        &["--no-prefill-assistant", "--spm-infill"],
        Switch,
        "changes how prompts are made",
        "zinc serve continues an answer that the conversation ends with, and fills in gaps with the text before them first",
    )
    .only_in(&["serve"]),
];
