// Ollama's client for Node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ollama } from "ollama";
import { all, ASK_VERDICT, ASK_WEATHER, BASE, COUNT, SUM, WEATHER, WEATHER_ABOUT, WEATHER_SCHEMA } from "./prompts.mjs";

const client = new Ollama({ host: BASE });
const user = (content) => ({ role: "user", content });
const shared = { model: "demo", options: { temperature: 0 } };
const SHAPES = new URL("../../../examples/shapes.png", import.meta.url).pathname;
const TOOL = { type: "function", function: { name: "get_weather", description: WEATHER_ABOUT, parameters: WEATHER_SCHEMA } };

test("a chat", async () => {
  const answer = await client.chat({ ...shared, messages: [{ role: "system", content: "Be brief." }, user(SUM)] });
  assert.match(answer.message.content, /42/);
  assert.equal(answer.done_reason, "stop");
  assert.ok(answer.eval_count > 0 && answer.total_duration >= answer.eval_duration);
});

test("streaming", async () => {
  const asked = { ...shared, messages: [user(COUNT)] };
  const chunks = await all(await client.chat({ ...asked, stream: true }));
  const texts = chunks.map((chunk) => chunk.message.content);
  assert.ok(texts.filter(Boolean).length > 1);
  assert.equal(texts.join(""), (await client.chat(asked)).message.content);
  assert.ok(chunks.at(-1).done);
});

test("a tool loop", async () => {
  const messages = [user(ASK_WEATHER)];
  const first = await client.chat({ ...shared, messages, tools: [TOOL] });
  const [call] = first.message.tool_calls;
  assert.deepEqual([call.function.name, call.function.arguments], ["get_weather", { city: "Paris" }]);
  messages.push(first.message, { role: "tool", tool_name: "get_weather", content: WEATHER });
  assert.match((await client.chat({ ...shared, messages, tools: [TOOL] })).message.content, /21/);
});

test("a prompt", async () => {
  const chunks = await all(await client.generate({ ...shared, prompt: SUM, stream: true }));
  assert.match(chunks.map((chunk) => chunk.response).join(""), /42/);
});

test("structured output", async () => {
  const format = { type: "object", properties: { verdict: { type: "boolean" } }, required: ["verdict"] };
  const answer = await client.chat({ ...shared, messages: [user(ASK_VERDICT)], format });
  assert.equal(typeof JSON.parse(answer.message.content).verdict, "boolean");
});

test("a picture", async () => {
  const asked = { ...user("What is in the picture?"), images: [SHAPES] };
  const answer = await client.chat({ ...shared, model: "demo-vision", messages: [asked] });
  assert.match(answer.message.content, /blue square/);
});

test("keep_alive", async () => {
  const loaded = await client.generate({ ...shared, prompt: "", keep_alive: "10m" });
  assert.equal(loaded.done_reason, "load");
  const [running] = (await client.ps()).models.filter((model) => model.name === "demo");
  assert.ok(new Date(running.expires_at).getFullYear() < 9999);
  await client.chat({ ...shared, messages: [user(SUM)], keep_alive: -1 });
});

test("models", async () => {
  assert.ok((await client.list()).models.some((model) => model.name === "demo"));
  assert.ok((await client.ps()).models.some((model) => model.name === "demo"));
  assert.ok((await client.show({ model: "demo" })).capabilities.includes("completion"));
});

test("errors", async () => {
  await assert.rejects(client.chat({ ...shared, model: "nothing", messages: [user(SUM)] }), /no model 'nothing' here/);
});
