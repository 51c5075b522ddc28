// What the checks of all Node libraries share: where the server is, what the scripted model says, and how checks are run.

import process from "node:process";
import { setTimeout } from "node:timers/promises";

export const URL = process.env.ZINC_URL;
export const KEY = process.env.ZINC_KEY;

// What the script has for the words "Hi", "think" and "person", and for the result of a tool.
export const HELLO = "Grüße from zinc, twice: Hi";
export const [THOUGHT, ANSWER] = ["Six times seven.", "It is 42."];
export const PERSON = { name: "Ada", age: 36 };
export const RAIN = "It rains in Ülm.";

// The tool that the script calls for the word "weather", and its arguments.
export const ARGUMENTS = { city: "Ulm", days: 3 };
export const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
};

// The longest wait for a lane to be free. It is far more than that takes.
export const PATIENCE_MS = 20_000;

// Waits until no lane of the server is taken. The answer to "endless" keeps its lane until its client leaves.
export async function waitUntilFree() {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    const reply = await fetch(`${URL}/slots`, { headers: { authorization: `Bearer ${KEY}` } });
    const lanes = await reply.json();
    if (!lanes.some((lane) => lane.is_processing)) return;
    await setTimeout(20);
  }
  throw new Error(`a lane is still taken ${PATIENCE_MS} ms after its client has left`);
}

// Runs functions by their names, and ends the program with their outcome.
export async function run(library, checks) {
  const names = Object.keys(checks);
  let failed = 0;
  for (const name of names) {
    try {
      await checks[name]();
    } catch (error) {
      failed += 1;
      console.error(`${library}: ${name} failed`, error);
    }
  }
  console.log(`${library}: ${names.length - failed} of ${names.length} checks passed`);
  process.exit(failed > 0 || names.length === 0 ? 1 : 0);
}
