"""The library `ollama`: chat, generate, and what it asks of models."""

import json

import ollama

import checks
from checks import ANSWER, ARGUMENTS, HELLO, KEY, PARAMETERS, PERSON, RAIN, THOUGHT, URL, fails, same

client = ollama.Client(host=URL, headers={"Authorization": f"Bearer {KEY}"}, timeout=checks.PATIENCE_S)
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}}


def chat(text, **fields):
    return client.chat(model="zinc", messages=[{"role": "user", "content": text}], **fields)


def check_chat():
    reply = chat("Hi")
    same((reply.message.content, reply.done, reply.done_reason), (HELLO, True, "stop"))
    assert reply.prompt_eval_count > 0 and reply.eval_count > 0


def check_chat_streamed():
    parts = list(chat("Hi", stream=True))
    same("".join(part.message.content for part in parts), HELLO)
    same([part.done for part in parts], [False] * (len(parts) - 1) + [True])


def check_chat_cut():
    reply = chat("Hi", options={"num_predict": 1})
    same((reply.done_reason, reply.eval_count), ("length", 1))


def check_tool():
    messages = [{"role": "user", "content": "weather"}]
    for stream in [False, True]:
        reply = client.chat(model="zinc", messages=messages, tools=[TOOL], stream=stream)
        parts = list(reply) if stream else [reply]
        [call] = [call for part in parts for call in part.message.tool_calls or []]
        same((call.function.name, call.function.arguments), ("weather", ARGUMENTS))
    messages += [reply.message if not stream else parts[0].message, {"role": "tool", "content": "rain", "tool_name": "weather"}]
    same(client.chat(model="zinc", messages=messages, tools=[TOOL]).message.content, RAIN)


def check_thinking():
    reply = chat("think", think=True)
    same((reply.message.thinking, reply.message.content), (THOUGHT, ANSWER))
    parts = list(chat("think", think=True, stream=True))
    same("".join(part.message.thinking or "" for part in parts), THOUGHT)
    same(chat("think", think=False).message.content, ANSWER)


def check_structured():
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"]}
    same(json.loads(chat("person", format=schema).message.content), PERSON)


def check_generate():
    reply = client.generate(model="zinc", prompt="Hi")
    same((reply.response, reply.done), (HELLO, True))
    same("".join(part.response for part in client.generate(model="zinc", prompt="Hi", stream=True)), HELLO)


def check_models():
    [model] = client.list().models
    shown = client.show(model.model)
    assert {"completion", "tools", "thinking"} <= set(shown.capabilities), shown.capabilities
    assert any(name.endswith(".context_length") for name in shown.modelinfo), shown.modelinfo
    same([running.model for running in client.ps().models], [model.model])


def check_errors():
    error = fails(ollama.ResponseError, lambda: chat("Hi", options={"temperature": -1}))
    same(error.status_code, 400)
    assert "temperature" in error.error, error.error
    stranger = ollama.Client(host=URL, headers={"Authorization": "Bearer wrong"})
    same(fails(ollama.ResponseError, stranger.list).status_code, 401)
    same(fails(ollama.ResponseError, lambda: client.show("none")).status_code, 404)


def check_an_answer_that_breaks():
    error = fails(ollama.ResponseError, lambda: list(chat("break", stream=True)))
    assert "device" in error.error, error.error


def check_leaving():
    stream = chat("endless", stream=True)
    next(stream)
    stream.close()
    checks.wait_until_free()


checks.run("ollama", globals())
