"""The library `pydantic-ai`, over chat completions and over responses."""

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

import checks
from checks import ANSWER, ARGUMENTS, HELLO, KEY, PERSON, RAIN, THOUGHT, URL, fails, same


class Person(BaseModel):
    name: str
    age: int


def models(key=KEY):
    provider = OpenAIProvider(base_url=f"{URL}/v1", api_key=key)
    return [OpenAIChatModel("zinc", provider=provider), OpenAIResponsesModel("zinc", provider=provider)]


def check_text():
    for model in models():
        result = Agent(model, instructions="Be brief.").run_sync("Hi")
        same(result.output, HELLO)
        assert result.usage.input_tokens > 0 and result.usage.output_tokens > 0


async def streamed(model, text):
    async with Agent(model).run_stream(text) as result:
        return "".join([part async for part in result.stream_text(delta=True, debounce_by=None)])


def check_text_streamed():
    for model in models():
        same(asyncio.run(streamed(model, "Hi")), HELLO)


def check_tool():
    for model in models():
        agent, calls = Agent(model), []

        @agent.tool_plain
        def weather(city: str, days: int) -> str:
            calls.append({"city": city, "days": days})
            return "rain"

        same(agent.run_sync("weather").output, RAIN)
        same(calls, [ARGUMENTS])


def check_structured():
    for model in models():
        same(Agent(model, output_type=NativeOutput(Person)).run_sync("person").output, Person(**PERSON))


def check_thinking():
    for model in models():
        result = Agent(model).run_sync("think")
        same(result.output, ANSWER)
        [thought] = [part for part in result.new_messages()[-1].parts if isinstance(part, ThinkingPart)]
        # Over responses the thoughts are raw, which this library keeps apart from summaries.
        raw = (thought.provider_details or {}).get("raw_content")
        same(thought.content or "".join(raw), THOUGHT)


def check_errors():
    for model in models():
        error = fails(ModelHTTPError, lambda: Agent(model, model_settings={"temperature": -1}).run_sync("Hi"))
        same((error.status_code, error.body["param"]), (400, "temperature"))
    for model in models("wrong"):
        same(fails(ModelHTTPError, lambda: Agent(model).run_sync("Hi")).status_code, 401)


async def begun(model):
    async with Agent(model).run_stream("endless") as result:
        async for _ in result.stream_text(delta=True, debounce_by=None):
            return


def check_leaving():
    for model in models():
        asyncio.run(begun(model))
        checks.wait_until_free()


checks.run("pydantic-ai", globals())
