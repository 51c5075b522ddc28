"""The library `openai`: chat completions, responses, completions and models."""

import json

import openai
from pydantic import BaseModel

import checks
from checks import ANSWER, ARGUMENTS, HELLO, KEY, PARAMETERS, PERSON, RAIN, THOUGHT, URL, fails, same

client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0, timeout=checks.PATIENCE_S)
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
FLAT_TOOL = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}


class Person(BaseModel):
    name: str
    age: int


def user(text):
    return [{"role": "user", "content": text}]


def chat(text, **fields):
    return client.chat.completions.create(model="zinc", messages=user(text), **fields)


def check_chat():
    reply = chat("Hi")
    same(reply.choices[0].message.content, HELLO)
    same(reply.choices[0].finish_reason, "stop")
    assert reply.usage.prompt_tokens > 0 and reply.usage.completion_tokens > 0
    same(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens)


def check_chat_streamed():
    chunks = list(chat("Hi", stream=True, stream_options={"include_usage": True}))
    same("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), HELLO)
    same([chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1], "stop")
    assert chunks[-1].usage.completion_tokens > 0


def check_chat_cut():
    reply = chat("Hi", max_completion_tokens=1)
    same((reply.choices[0].finish_reason, reply.usage.completion_tokens), ("length", 1))


def check_chat_choices_and_logprobs():
    reply = chat("Hi", n=2, logprobs=True, top_logprobs=2)
    same([choice.message.content for choice in reply.choices], [HELLO, HELLO])
    tokens = reply.choices[1].logprobs.content
    same("".join(token.token for token in tokens), HELLO)
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens)


def check_chat_tool():
    messages = user("weather")
    reply = client.chat.completions.create(model="zinc", messages=messages, tools=[TOOL])
    same(reply.choices[0].finish_reason, "tool_calls")
    [call] = reply.choices[0].message.tool_calls
    same((call.function.name, json.loads(call.function.arguments)), ("weather", ARGUMENTS))
    messages += [reply.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    reply = client.chat.completions.create(model="zinc", messages=messages, tools=[TOOL])
    same(reply.choices[0].message.content, RAIN)


def check_chat_tool_streamed():
    with client.chat.completions.stream(model="zinc", messages=user("weather"), tools=[TOOL]) as stream:
        kinds = {event.type for event in stream}
        [call] = stream.get_final_completion().choices[0].message.tool_calls
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds, kinds
    same((call.function.name, json.loads(call.function.arguments)), ("weather", ARGUMENTS))


def check_chat_structured():
    reply = client.chat.completions.parse(model="zinc", messages=user("person"), response_format=Person)
    same(reply.choices[0].message.parsed, Person(**PERSON))


def check_chat_reasoning():
    reply = chat("think", reasoning_effort="low")
    same((reply.choices[0].message.reasoning_content, reply.choices[0].message.content), (THOUGHT, ANSWER))
    assert reply.usage.completion_tokens_details.reasoning_tokens > 0
    deltas = [chunk.choices[0].delta for chunk in chat("think", stream=True)]
    same("".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas), THOUGHT)


def check_errors():
    error = fails(openai.BadRequestError, lambda: chat("Hi", temperature="warm"))
    same((error.status_code, error.param, error.type), (400, "temperature", "invalid_request_error"))
    error = fails(openai.NotFoundError, lambda: client.models.retrieve("none"))
    same((error.status_code, error.code), (404, "model_not_found"))
    stranger = client.with_options(api_key="wrong")
    error = fails(openai.AuthenticationError, lambda: stranger.models.list())
    same((error.status_code, error.code), (401, "invalid_api_key"))
    error = fails(openai.InternalServerError, lambda: client.embeddings.create(model="zinc", input="Hi"))
    same(error.status_code, 501)


def check_an_answer_that_breaks():
    error = fails(openai.APIError, lambda: list(chat("break", stream=True)))
    assert "device" in error.message, error.message


def check_a_prompt_that_is_too_long():
    error = fails(openai.BadRequestError, lambda: chat("word " * 30_000))
    same((error.type, error.body["n_ctx"]), ("exceed_context_size_error", 100_000))
    assert error.body["n_prompt_tokens"] > 100_000, error.body


def check_leaving():
    stream = chat("endless", stream=True)
    next(iter(stream))
    stream.close()
    checks.wait_until_free()
    fails(openai.APITimeoutError, lambda: client.with_options(timeout=0.3).chat.completions.create(model="zinc", messages=user("endless")))
    checks.wait_until_free()


def check_completions():
    reply = client.completions.create(model="zinc", prompt="Hi")
    same(reply.choices[0].text, HELLO)
    same("".join(chunk.choices[0].text for chunk in client.completions.create(model="zinc", prompt="Hi", stream=True)), HELLO)


def check_responses():
    reply = client.responses.create(model="zinc", input="Hi", instructions="Be brief.")
    same((reply.output_text, reply.status), (HELLO, "completed"))
    counted = client.responses.input_tokens.count(model="zinc", input="Hi", instructions="Be brief.")
    same(counted.input_tokens, reply.usage.input_tokens)
    same(client.responses.parse(model="zinc", input="person", text_format=Person).output_parsed, Person(**PERSON))


def check_responses_streamed():
    with client.responses.stream(model="zinc", input="think") as stream:
        events = list(stream)
        final = stream.get_final_response()
    same("".join(event.delta for event in events if event.type == "response.output_text.delta"), ANSWER)
    same("".join(event.delta for event in events if event.type == "response.reasoning_text.delta"), THOUGHT)
    same([item.type for item in final.output], ["reasoning", "message"])
    assert final.usage.output_tokens_details.reasoning_tokens > 0


def check_responses_tool():
    items = [{"role": "user", "content": "weather"}]
    reply = client.responses.create(model="zinc", input=items, tools=[FLAT_TOOL])
    [call] = [item for item in reply.output if item.type == "function_call"]
    same((call.name, json.loads(call.arguments)), ("weather", ARGUMENTS))
    items += reply.output
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "rain"})
    same(client.responses.create(model="zinc", input=items, tools=[FLAT_TOOL]).output_text, RAIN)


def check_responses_errors():
    error = fails(openai.BadRequestError, lambda: client.responses.create(model="zinc", input="Hi", previous_response_id="resp_1"))
    same(error.param, "previous_response_id")
    fails(openai.NotFoundError, lambda: client.responses.retrieve("resp_1"))


def check_models():
    same([model.id for model in client.models.list()], ["zinc"])
    same(client.models.retrieve("zinc").object, "model")


checks.run("openai", globals())
