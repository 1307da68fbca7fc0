// The `openai` and `@anthropic-ai/sdk` clients for Node.

import assert from "node:assert/strict";
import test from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const url = process.env.DFLASH_URL ?? "http://127.0.0.1:8000";
const apiKey = "no key is needed";
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey, authToken: null, maxRetries: 0 });
const model = (await openai.models.list()).data[0].id;
const messages = [{ role: "user", content: "Name three colours." }];
const parameters = {
  type: "object",
  properties: { city: { type: "string", maxLength: 20 } },
  required: ["city"],
  additionalProperties: false,
};

test("openai: chat, streamed and not", async () => {
  const ask = { model, messages, temperature: 0, max_tokens: 24 };
  const whole = (await openai.chat.completions.create(ask)).choices[0].message.content;
  let text = "";
  for await (const chunk of await openai.chat.completions.create({ ...ask, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? "";
  }
  assert.ok(whole);
  assert.equal(text, whole);
});

test("openai: tools", async () => {
  const tools = [{ type: "function", function: { name: "weather", description: "The weather of a city", parameters } }];
  const ask = { model, messages, tools, tool_choice: "required", temperature: 0, max_tokens: 100 };
  const [choice] = (await openai.chat.completions.create(ask)).choices;
  assert.equal(choice.finish_reason, "tool_calls");
  assert.equal(typeof JSON.parse(choice.message.tool_calls[0].function.arguments).city, "string");
});

test("openai: responses, streamed and not", async () => {
  const ask = { model, input: "Name three colours.", temperature: 0, max_output_tokens: 24 };
  const whole = await openai.responses.create(ask);
  const stream = openai.responses.stream(ask);
  let text = "";
  for await (const event of stream) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.ok(whole.output_text);
  assert.equal(text, whole.output_text);
});

test("anthropic: messages, streamed and not", async () => {
  const ask = { model, messages, max_tokens: 24 };
  const whole = await anthropic.messages.create({ ...ask, temperature: 0 });
  const final = await anthropic.messages.stream({ ...ask, temperature: 0 }).finalMessage();
  assert.ok(whole.content[0].text);
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.stop_reason, whole.stop_reason);
});

test("anthropic: tools", async () => {
  const tools = [{ name: "weather", description: "The weather of a city", input_schema: parameters }];
  const ask = { model, messages, tools, tool_choice: { type: "any" }, max_tokens: 100, temperature: 0 };
  const message = await anthropic.messages.create(ask);
  assert.equal(message.stop_reason, "tool_use");
  assert.equal(typeof message.content.find((block) => block.type === "tool_use").input.city, "string");
});
