// The library `openai` of Node: chat completions, responses and models.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { ANSWER, ARGUMENTS, HELLO, KEY, PARAMETERS, PATIENCE_MS, PERSON, RAIN, THOUGHT, URL, run, waitUntilFree } from "./checks.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY, maxRetries: 0, timeout: PATIENCE_MS });
const tools = [{ type: "function", function: { name: "weather", parameters: PARAMETERS } }];
const flatTools = [{ type: "function", name: "weather", parameters: PARAMETERS, strict: false }];
const Person = z.object({ name: z.string(), age: z.number().int() });

const user = (content) => [{ role: "user", content }];
const chat = (text, fields = {}) => client.chat.completions.create({ model: "zinc", messages: user(text), ...fields });

async function all(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

await run("openai (Node)", {
  async chat() {
    const reply = await chat("Hi");
    assert.equal(reply.choices[0].message.content, HELLO);
    assert.equal(reply.choices[0].finish_reason, "stop");
    assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
  },

  async chatStreamed() {
    const chunks = await all(await chat("Hi", { stream: true, stream_options: { include_usage: true } }));
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), HELLO);
    assert.ok(chunks.at(-1).usage.completion_tokens > 0);
  },

  async chatTool() {
    const messages = user("weather");
    const reply = await client.chat.completions.create({ model: "zinc", messages, tools });
    const [call] = reply.choices[0].message.tool_calls;
    assert.deepEqual(JSON.parse(call.function.arguments), ARGUMENTS);
    messages.push(reply.choices[0].message, { role: "tool", tool_call_id: call.id, content: "rain" });
    const after = await client.chat.completions.create({ model: "zinc", messages, tools });
    assert.equal(after.choices[0].message.content, RAIN);
  },

  async chatToolRunner() {
    const calls = [];
    const weather = { name: "weather", parameters: PARAMETERS, parse: JSON.parse, function: (given) => (calls.push(given), "rain") };
    const runner = client.chat.completions.runTools({
      model: "zinc",
      stream: true,
      messages: user("weather"),
      tools: [{ type: "function", function: weather }],
    });
    assert.equal(await runner.finalContent(), RAIN);
    assert.deepEqual(calls, [ARGUMENTS]);
  },

  async chatStructured() {
    const format = zodResponseFormat(Person, "person");
    const reply = await client.chat.completions.parse({ model: "zinc", messages: user("person"), response_format: format });
    assert.deepEqual(reply.choices[0].message.parsed, PERSON);
  },

  async chatReasoning() {
    const reply = await chat("think");
    assert.deepEqual([reply.choices[0].message.reasoning_content, reply.choices[0].message.content], [THOUGHT, ANSWER]);
    assert.ok(reply.usage.completion_tokens_details.reasoning_tokens > 0);
  },

  async errors() {
    const wrong = await chat("Hi", { temperature: "warm" }).catch((error) => error);
    assert.deepEqual([wrong.constructor, wrong.status, wrong.param], [OpenAI.BadRequestError, 400, "temperature"]);
    const none = await client.models.retrieve("none").catch((error) => error);
    assert.deepEqual([none.constructor, none.status], [OpenAI.NotFoundError, 404]);
    const stranger = await client.withOptions({ apiKey: "wrong" }).models.list().catch((error) => error);
    assert.deepEqual([stranger.constructor, stranger.status], [OpenAI.AuthenticationError, 401]);
  },

  async anAnswerThatBreaks() {
    const error = await chat("break", { stream: true }).then(all).catch((error) => error);
    assert.ok(error instanceof OpenAI.APIError && /device/.test(error.message), String(error));
  },

  async leaving() {
    const stream = await chat("endless", { stream: true });
    for await (const _ of stream) break;
    await waitUntilFree();
    const controller = new AbortController();
    const pending = client.chat.completions.create({ model: "zinc", messages: user("endless") }, { signal: controller.signal });
    setTimeout(() => controller.abort(), 200);
    assert.ok((await pending.catch((error) => error)) instanceof OpenAI.APIUserAbortError);
    await waitUntilFree();
  },

  async responses() {
    const reply = await client.responses.create({ model: "zinc", input: "Hi" });
    assert.deepEqual([reply.output_text, reply.status], [HELLO, "completed"]);
    const parsed = await client.responses.parse({ model: "zinc", input: "person", text: { format: zodTextFormat(Person, "person") } });
    assert.deepEqual(parsed.output_parsed, PERSON);
  },

  async responsesStreamed() {
    const stream = client.responses.stream({ model: "zinc", input: "think" });
    const events = await all(stream);
    const text = (type) => events.filter((event) => event.type === type).map((event) => event.delta).join("");
    assert.deepEqual([text("response.reasoning_text.delta"), text("response.output_text.delta")], [THOUGHT, ANSWER]);
    assert.equal((await stream.finalResponse()).status, "completed");
  },

  async responsesTool() {
    const input = [{ role: "user", content: "weather" }];
    const reply = await client.responses.create({ model: "zinc", input, tools: flatTools });
    const call = reply.output.find((item) => item.type === "function_call");
    assert.deepEqual(JSON.parse(call.arguments), ARGUMENTS);
    input.push(...reply.output, { type: "function_call_output", call_id: call.call_id, output: "rain" });
    assert.equal((await client.responses.create({ model: "zinc", input, tools: flatTools })).output_text, RAIN);
  },

  async models() {
    assert.deepEqual((await all(await client.models.list())).map((model) => model.id), ["zinc"]);
  },
});
