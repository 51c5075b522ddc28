"""The library `litellm`, over each of the APIs that it knows zinc by."""

import json
import os

# It would look up prices of models on the network otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

import checks
from checks import ANSWER, ARGUMENTS, HELLO, KEY, PARAMETERS, PERSON, RAIN, THOUGHT, URL, fails, same

litellm.suppress_debug_info = True
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
BACKENDS = [
    {"model": "openai/zinc", "api_base": f"{URL}/v1"},
    {"model": "hosted_vllm/zinc", "api_base": f"{URL}/v1"},
    {"model": "anthropic/zinc", "api_base": URL},
]


def chat(backend, text, **fields):
    messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
    common = {"api_key": KEY, "max_tokens": 1000, "num_retries": 0, "timeout": checks.PATIENCE_S}
    return litellm.completion(messages=messages, **common, **backend, **fields)


def check_text():
    for backend in BACKENDS:
        reply = chat(backend, "Hi")
        same((reply.choices[0].message.content, reply.choices[0].finish_reason), (HELLO, "stop"))
        assert reply.usage.prompt_tokens > 0 and reply.usage.completion_tokens > 0


def check_text_streamed():
    for backend in BACKENDS:
        chunks = list(chat(backend, "Hi", stream=True))
        same("".join(chunk.choices[0].delta.content or "" for chunk in chunks), HELLO)


def check_tool():
    for backend in BACKENDS:
        messages = [{"role": "user", "content": "weather"}]
        message = chat(backend, messages, tools=[TOOL]).choices[0].message
        [call] = message.tool_calls
        same((call.function.name, json.loads(call.function.arguments)), ("weather", ARGUMENTS))
        messages += [message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
        same(chat(backend, messages, tools=[TOOL]).choices[0].message.content, RAIN)


def check_tool_streamed():
    for backend in BACKENDS:
        chunks = list(chat(backend, "weather", tools=[TOOL], stream=True))
        [call] = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls
        same((call.function.name, json.loads(call.function.arguments)), ("weather", ARGUMENTS))


def check_structured():
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"]}
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    same(json.loads(chat(BACKENDS[0], "person", response_format=form).choices[0].message.content), PERSON)


def check_thinking():
    for backend in BACKENDS:
        message = chat(backend, "think").choices[0].message
        same((message.reasoning_content, message.content), (THOUGHT, ANSWER))


def check_errors():
    for backend in BACKENDS:
        fails(litellm.BadRequestError, lambda: chat(backend, "Hi", extra_body={"temperature": -1}, temperature=-1))
        stranger = {"messages": [{"role": "user", "content": "Hi"}], "api_key": "wrong", "num_retries": 0, **backend}
        fails(litellm.AuthenticationError, lambda: litellm.completion(**stranger))


def check_responses():
    reply = litellm.responses(model="openai/zinc", api_base=f"{URL}/v1", api_key=KEY, input="Hi")
    same(reply.output[0].content[0].text, HELLO)


def check_leaving():
    stream = chat(BACKENDS[0], "endless", stream=True)
    next(stream)
    stream.completion_stream.close()
    checks.wait_until_free()


checks.run("litellm", globals())
