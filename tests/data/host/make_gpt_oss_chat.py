#!/usr/bin/env python3
"""Renders the conversations of gpt_oss_chat.json anew: what OpenAI's renderer of harmony makes of each.

    python3 -m venv venv
    venv/bin/pip install openai-harmony==0.0.8 bpe-openai==0.1.4
    venv/bin/python make_gpt_oss_chat.py

The renderer checks the checksum of its vocabulary; the package bpe-openai has the file. `input` is what a chat template is given, in the shape of OpenAI's
API. The first message is the developer's instructions if it is one of the system or the developer. Thoughts stand only before calls of tools behind which
there is no answer yet, and before the last answer if nothing is to follow. Without an answer, and with one that is the model's last message, the renderer
itself leaves out the same thoughts, which is checked.
"""

import gzip
import json
import os
import tempfile
from importlib.resources import files
from pathlib import Path

FILE = Path(__file__).parent / "gpt_oss_chat.json"
FOLDER = tempfile.mkdtemp()
RANKS = (files("bpe_openai") / "data" / "o200k_base.tiktoken.gz").read_bytes()
(Path(FOLDER) / "o200k_base.tiktoken").write_bytes(gzip.decompress(RANKS))
os.environ["TIKTOKEN_ENCODINGS_BASE"] = FOLDER

from openai_harmony import (  # noqa: E402
    Author,
    Conversation,
    DeveloperContent,
    HarmonyEncodingName,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    Role,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
)

ENCODING = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)


def said(role, text, channel=None, to=None, kind=None):
    message = Message.from_role_and_content(role, text)
    message = message.with_channel(channel) if channel else message
    message = message.with_recipient(to) if to else message
    return message.with_content_type(kind) if kind else message


def text(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def system(given, date):
    effort = ReasoningEffort(given.get("reasoning_effort", "medium").capitalize())
    content = SystemContent.new().with_reasoning_effort(effort).with_conversation_start_date(date)
    if "model_identity" in given:
        content = content.with_model_identity(given["model_identity"])
    return Message.from_role_and_content(Role.SYSTEM, content)


def developer(instructions, tools):
    content = DeveloperContent.new()
    content = content.with_instructions(instructions) if instructions else content
    functions = [tool["function"] for tool in tools or []]
    described = [ToolDescription.new(f["name"], f.get("description", ""), f.get("parameters")) for f in functions]
    content = content.with_function_tools(described) if described else content
    return [Message.from_role_and_content(Role.DEVELOPER, content)] if instructions or tools else []


def of_assistant(message):
    thought = message.get("thinking") or message.get("reasoning_content")
    out = [said(Role.ASSISTANT, thought, "analysis")] if thought else []
    calls = message.get("tool_calls", [])
    if not calls:
        return out + [said(Role.ASSISTANT, text(message), "final")]
    out += [said(Role.ASSISTANT, text(message), "commentary")] if text(message) else []
    for call in calls:
        function = call["function"]
        arguments = function["arguments"]
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        to = "functions." + function["name"]
        out.append(said(Role.ASSISTANT, arguments, "commentary", to, "<|constrain|>json"))
    return out


def messages(given, date, drop):
    """The messages of a conversation; `drop` leaves out the thoughts that models do not read again."""
    turns = given["messages"]
    has_instructions = bool(turns) and turns[0]["role"] in ("system", "developer")
    out = [system(given, date)]
    out += developer(text(turns[0]) if has_instructions else "", given.get("tools"))
    turns = turns[1:] if has_instructions else turns
    answers = [at for at, turn in enumerate(turns) if turn["role"] == "assistant" and not turn.get("tool_calls")]
    calls = []
    for at, turn in enumerate(turns):
        if turn["role"] == "assistant":
            calls = turn.get("tool_calls") or calls
            own = of_assistant(turn)
            is_open = turn.get("tool_calls") and all(answer < at for answer in answers)
            is_last = at == len(turns) - 1 and not given.get("add_generation_prompt", True)
            out += [m for m in own if m.channel != "analysis" or is_open or is_last or not drop]
        elif turn["role"] == "tool":
            ids = [call for call in calls if call.get("id") == turn.get("tool_call_id")]
            name = turn.get("name") or (ids[-1] if ids else calls[0])["function"]["name"]
            author = Author.new(Role.TOOL, "functions." + name)
            message = Message.from_author_and_content(author, text(turn))
            out.append(message.with_channel("commentary").with_recipient("assistant"))
        elif turn["role"] == "user":
            out.append(said(Role.USER, text(turn)))
        else:
            out += developer(text(turn), None)
    return out, len(answers)


def is_answered(turns):
    """Whether the model's last message is an answer, with which the renderer leaves out thoughts before the first one."""
    last = [turn for turn in turns if turn["role"] == "assistant"][-1]
    return not last.get("tool_calls")


def rendered(given, date):
    keep = RenderConversationConfig(auto_drop_analysis=False)
    made, answers = messages(given, date, True)
    if not given.get("add_generation_prompt", True):
        return ENCODING.decode_utf8(ENCODING.render_conversation_for_training(Conversation.from_messages(made), keep))
    tokens = ENCODING.render_conversation_for_completion(Conversation.from_messages(made), Role.ASSISTANT, keep)
    if answers == 0 or (answers == 1 and is_answered(given["messages"])):
        whole, _ = messages(given, date, False)
        own = ENCODING.render_conversation_for_completion(Conversation.from_messages(whole), Role.ASSISTANT)
        assert own == tokens, given
    return ENCODING.decode_utf8(tokens)


def main():
    golden = json.loads(FILE.read_text())
    for case in golden["cases"]:
        case["rendered"] = rendered(case["input"], golden["date"])
    FILE.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
