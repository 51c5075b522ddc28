// The library `@ai-sdk/openai-compatible`, which opencode and others use, through `ai`.

import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, Output, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { ANSWER, ARGUMENTS, HELLO, KEY, PERSON, RAIN, THOUGHT, URL, run, waitUntilFree } from "./checks.mjs";

const settings = { name: "zinc", baseURL: `${URL}/v1`, includeUsage: true, supportsStructuredOutputs: true };
const provider = (apiKey) => createOpenAICompatible({ ...settings, apiKey });
const model = provider(KEY)("zinc");
const common = { model, maxRetries: 0 };
const Person = z.object({ name: z.string(), age: z.number().int() });

function weather(calls) {
  const execute = (given) => (calls.push(given), "rain");
  return tool({ description: "The weather.", inputSchema: z.object({ city: z.string(), days: z.number().int() }), execute });
}

await run("@ai-sdk/openai-compatible", {
  async text() {
    const { text, finishReason, usage } = await generateText({ ...common, prompt: "Hi" });
    assert.deepEqual([text, finishReason], [HELLO, "stop"]);
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
  },

  async textStreamed() {
    const result = streamText({ ...common, prompt: "Hi" });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    assert.deepEqual([text, await result.finishReason], [HELLO, "stop"]);
    assert.ok((await result.usage).outputTokens > 0);
  },

  async toolAndItsResult() {
    for (const ask of [generateText, streamText]) {
      const calls = [];
      const result = await ask({ ...common, prompt: "weather", tools: { weather: weather(calls) }, stopWhen: stepCountIs(3) });
      assert.deepEqual([await result.text, calls], [RAIN, [ARGUMENTS]]);
    }
  },

  async structured() {
    const { output } = await generateText({ ...common, prompt: "person", output: Output.object({ schema: Person }) });
    assert.deepEqual(output, PERSON);
  },

  async reasoning() {
    const { reasoningText, text } = await generateText({ ...common, prompt: "think" });
    assert.deepEqual([reasoningText, text], [THOUGHT, ANSWER]);
    const streamed = streamText({ ...common, prompt: "think" });
    assert.deepEqual([await streamed.reasoningText, await streamed.text], [THOUGHT, ANSWER]);
  },

  async errors() {
    const wrong = await generateText({ ...common, prompt: "Hi", temperature: -1 }).catch((error) => error);
    assert.ok(APICallError.isInstance(wrong), String(wrong));
    assert.deepEqual([wrong.statusCode, JSON.parse(wrong.responseBody).error.param], [400, "temperature"]);
    const stranger = await generateText({ model: provider("wrong")("zinc"), maxRetries: 0, prompt: "Hi" }).catch((error) => error);
    assert.equal(stranger.statusCode, 401);
  },

  async leaving() {
    const controller = new AbortController();
    const result = streamText({ ...common, prompt: "endless", abortSignal: controller.signal });
    for await (const _ of result.textStream) break;
    controller.abort();
    await waitUntilFree();
  },
});
