"""The library `anthropic`: messages and the count of their tokens."""

import anthropic
from pydantic import BaseModel

import checks
from checks import ANSWER, ARGUMENTS, HELLO, KEY, PARAMETERS, PERSON, RAIN, THOUGHT, URL, fails, same

client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0, timeout=checks.PATIENCE_S)
TOOL = {"name": "weather", "description": "The weather of days to come.", "input_schema": PARAMETERS}


class Person(BaseModel):
    name: str
    age: int


def ask(text, **fields):
    return {"model": "zinc", "max_tokens": 1000, "messages": [{"role": "user", "content": text}], **fields}


def check_message():
    message = client.messages.create(**ask("Hi", system="Be brief."))
    same((message.content[0].text, message.stop_reason), (HELLO, "end_turn"))
    counted = ask("Hi", system="Be brief.")
    del counted["max_tokens"]
    same(client.messages.count_tokens(**counted).input_tokens, message.usage.input_tokens)
    assert message.usage.output_tokens > 0


def check_message_streamed():
    with client.messages.stream(**ask("Hi")) as stream:
        same("".join(stream.text_stream), HELLO)
        message = stream.get_final_message()
    same((message.content[0].text, message.stop_reason), (HELLO, "end_turn"))
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0


def check_cut_and_stopped():
    same(client.messages.create(**ask("Hi", max_tokens=1)).stop_reason, "max_tokens")
    message = client.messages.create(**ask("Hi", stop_sequences=[" twice"]))
    same((message.content[0].text, message.stop_reason, message.stop_sequence), ("Grüße from zinc,", "stop_sequence", " twice"))


def check_tool():
    asked = ask("weather", tools=[TOOL])
    message = client.messages.create(**asked)
    same(message.stop_reason, "tool_use")
    [call] = [block for block in message.content if block.type == "tool_use"]
    same((call.name, call.input), ("weather", ARGUMENTS))
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
    asked["messages"] += [{"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    same(client.messages.create(**asked).content[-1].text, RAIN)


def check_tool_streamed():
    with client.messages.stream(**ask("weather", tools=[TOOL])) as stream:
        fragments = [event.partial_json for event in stream if event.type == "input_json"]
        message = stream.get_final_message()
    assert fragments
    same([block.type for block in message.content], ["thinking", "tool_use"])
    same(message.content[-1].input, ARGUMENTS)


def check_thinking():
    message = client.messages.create(**ask("think", max_tokens=4096, thinking={"type": "enabled", "budget_tokens": 2048}))
    same([block.type for block in message.content], ["thinking", "text"])
    same((message.content[0].thinking, message.content[1].text), (THOUGHT, ANSWER))
    assert message.content[0].signature and message.usage.output_tokens_details.thinking_tokens > 0


def check_structured():
    same(client.messages.parse(**ask("person"), output_format=Person).parsed_output, Person(**PERSON))


def check_errors():
    error = fails(anthropic.BadRequestError, lambda: client.messages.create(**ask("Hi", extra_body={"temperature": "warm"})))
    same((error.status_code, error.body["type"], error.body["error"]["type"]), (400, "error", "invalid_request_error"))
    assert "temperature" in error.body["error"]["message"], error.body
    stranger = client.with_options(api_key="wrong")
    error = fails(anthropic.AuthenticationError, lambda: stranger.messages.create(**ask("Hi")))
    same(error.body["error"]["type"], "authentication_error")
    error = fails(anthropic.NotFoundError, lambda: client.models.retrieve("none"))
    same(error.status_code, 404)


def check_an_answer_that_breaks():
    error = fails(anthropic.APIStatusError, lambda: list(client.messages.create(**ask("break", stream=True))))
    same(error.body["error"]["type"], "api_error")


def check_leaving():
    with client.messages.stream(**ask("endless")) as stream:
        next(stream.text_stream)
    checks.wait_until_free()


checks.run("anthropic", globals())
