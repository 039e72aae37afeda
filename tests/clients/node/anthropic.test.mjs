// Anthropic's SDK for Node.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { ASK_WEATHER, BASE, COUNT, SUM, WEATHER, WEATHER_ABOUT, WEATHER_SCHEMA } from "./prompts.mjs";

const client = new Anthropic({ baseURL: BASE, apiKey: "none", maxRetries: 0 });
const user = (content) => ({ role: "user", content });
const shared = { model: "demo", max_tokens: 500, temperature: 0 };
const TOOL = { name: "get_weather", description: WEATHER_ABOUT, input_schema: WEATHER_SCHEMA };

test("an answer", async () => {
  const answer = await client.messages.create({ ...shared, system: "Be brief.", messages: [user(SUM)] });
  assert.match(answer.content[0].text, /42/);
  assert.equal(answer.stop_reason, "end_turn");
  assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0);
});

test("streaming", async () => {
  const stream = client.messages.stream({ ...shared, messages: [user(COUNT)] });
  const pieces = [];
  stream.on("text", (piece) => pieces.push(piece));
  const whole = await client.messages.create({ ...shared, messages: [user(COUNT)] });
  const final = await stream.finalMessage();
  assert.equal(final.content[0].text, whole.content[0].text);
  assert.equal(pieces.join(""), whole.content[0].text);
  assert.ok(final.usage.output_tokens > 20);
});

for (const streamed of [false, true]) {
  test(`a tool loop, streamed ${streamed}`, async () => {
    const turn = (messages) => {
      const asked = { ...shared, messages, tools: [TOOL] };
      return streamed ? client.messages.stream(asked).finalMessage() : client.messages.create(asked);
    };
    const first = await turn([user(ASK_WEATHER)]);
    assert.equal(first.stop_reason, "tool_use");
    const call = first.content.find((block) => block.type === "tool_use");
    assert.deepEqual([call.name, call.input], ["get_weather", { city: "Paris" }]);
    const result = { type: "tool_result", tool_use_id: call.id, content: WEATHER };
    const second = await turn([user(ASK_WEATHER), { role: "assistant", content: first.content }, user([result])]);
    assert.match(second.content[0].text, /21/);
  });
}

test("a forced call", async () => {
  const choice = { type: "tool", name: "get_weather" };
  const asked = { ...shared, messages: [user("Hello there!")], tools: [TOOL], tool_choice: choice };
  const answer = await client.messages.create(asked);
  assert.deepEqual(answer.content.filter((block) => block.type === "tool_use").map((block) => block.name), ["get_weather"]);
});

test("thinking", async () => {
  const thinking = { type: "enabled", budget_tokens: 1024 };
  const stream = client.messages.stream({ model: "demo", max_tokens: 2000, messages: [user(SUM)], thinking });
  const final = await stream.finalMessage();
  assert.deepEqual(final.content.map((block) => block.type), ["thinking", "text"]);
  assert.match(final.content[1].text, /42/);
});

test("counting tokens", async () => {
  const asked = { model: "demo", messages: [user(SUM)] };
  const { input_tokens: counted } = await client.messages.countTokens(asked);
  const { usage } = await client.messages.create({ ...shared, messages: [user(SUM)] });
  assert.equal(counted, usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens);
});

test("models", async () => {
  const found = [];
  for await (const model of client.models.list()) found.push(model.id);
  assert.ok(found.includes("demo"));
  assert.equal((await client.models.retrieve("demo")).type, "model");
});

test("errors", async () => {
  const asked = { ...shared, messages: [user(SUM)] };
  await assert.rejects(client.messages.create({ ...asked, model: "nothing" }), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({ ...asked, temperature: 9 }), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.equal(error.error.error.type, "invalid_request_error");
    return true;
  });
});
