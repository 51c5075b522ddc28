"""The library `langchain-openai`, over chat completions and over responses."""

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import checks
from checks import ANSWER, ARGUMENTS, HELLO, KEY, PERSON, RAIN, URL, fails, same


class Person(BaseModel):
    name: str
    age: int


@tool
def weather(city: str, days: int) -> str:
    """The weather of days to come."""
    return f"rain in {city} for {days} days"


def models(**fields):
    common = {"model": "zinc", "base_url": f"{URL}/v1", "api_key": KEY, "max_retries": 0, "timeout": checks.PATIENCE_S, **fields}
    return [ChatOpenAI(**common), ChatOpenAI(**common, use_responses_api=True)]


def check_text():
    for model in models():
        message = model.invoke("Hi")
        same(message.text, HELLO)
        assert message.usage_metadata["input_tokens"] > 0 and message.usage_metadata["output_tokens"] > 0


def check_text_streamed():
    for model in models(stream_usage=True):
        chunks = list(model.stream("Hi"))
        same("".join(chunk.text for chunk in chunks), HELLO)
        assert any(chunk.usage_metadata for chunk in chunks)


def check_tool():
    for model in models():
        bound, messages = model.bind_tools([weather]), [HumanMessage("weather")]
        message = bound.invoke(messages)
        [call] = message.tool_calls
        same((call["name"], call["args"]), ("weather", ARGUMENTS))
        messages += [message, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
        same(bound.invoke(messages).text, RAIN)


def check_tool_streamed():
    for model in models():
        chunks = list(model.bind_tools([weather]).stream("weather"))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        same([(call["name"], call["args"]) for call in whole.tool_calls], [("weather", ARGUMENTS)])


def check_structured():
    for model in models():
        same(model.with_structured_output(Person, method="json_schema").invoke("person"), Person(**PERSON))


def check_thinking():
    for model in models():
        same(model.invoke("think").text, ANSWER)


def check_errors():
    for model in models(temperature=-1):
        same(fails(openai.BadRequestError, lambda: model.invoke("Hi")).param, "temperature")
    for model in models(api_key="wrong"):
        same(fails(openai.AuthenticationError, lambda: model.invoke("Hi")).status_code, 401)


def check_leaving():
    stream = models()[0].stream("endless")
    next(stream)
    stream.close()
    checks.wait_until_free()


checks.run("langchain-openai", globals())
