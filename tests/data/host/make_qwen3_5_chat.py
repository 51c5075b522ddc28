#!/usr/bin/env python3
"""Renders the conversations of qwen3_5_chat.json anew: what Jinja2 makes of each by the templates of Qwen3.5, Qwen3.6 and Qwen3.8.

    python3 make_qwen3_5_chat.py QWEN3.5 QWEN3.6 QWEN3.8

The arguments are files with the templates that are published with the models (`chat_template.jinja`, or `chat_template` in `tokenizer_config.json`).
Made with Jinja2 3.1.6, set up as for jinja.json. `input` is what a chat template is given, in the shape of OpenAI's API; null stands for a conversation that
a template refuses.
"""

import json
import os
import sys
from pathlib import Path

import jinja2

FOLDER = Path(__file__).parent
FILE = FOLDER / "qwen3_5_chat.json"
NAMES = ["qwen3.5", "qwen3.6", "qwen3.8"]


def rendered(template, given):
    try:
        return template.render(**{"tools": None, "documents": None, "add_generation_prompt": True, **given})
    except (jinja2.exceptions.TemplateError, TypeError):
        return None


def main():
    templates = [Path(name).resolve().read_text() for name in sys.argv[1:]]
    os.chdir(FOLDER)
    from make_jinja import environment

    golden = json.loads(FILE.read_text())
    templates = dict(zip(NAMES, map(environment().from_string, templates), strict=True))
    for case in golden["cases"]:
        case["rendered"] = {name: rendered(template, case["input"]) for name, template in templates.items()}
    FILE.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
