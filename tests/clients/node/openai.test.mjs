// OpenAI's SDK for Node: Chat Completions, Completions, Responses, Azure.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { AzureOpenAI } from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { all, ASK_VERDICT, ASK_WEATHER, BASE, COUNT, SUM, WEATHER, WEATHER_ABOUT, WEATHER_SCHEMA } from "./prompts.mjs";

const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: "none", maxRetries: 0 });
const user = (content) => [{ role: "user", content }];
const shared = { model: "demo", temperature: 0 };
const chat = (messages, options = {}) => client.chat.completions.create({ ...shared, messages, ...options });
const respond = (input, options = {}) => client.responses.create({ ...shared, input, ...options });
const described = { name: "get_weather", description: WEATHER_ABOUT, parameters: WEATHER_SCHEMA };
const CHAT_TOOL = { type: "function", function: described };
const RESPONSES_TOOL = { type: "function", strict: false, ...described };
const Verdict = z.object({ answer: z.enum(["yes", "no"]), sure: z.boolean() });

test("chat: an answer", async () => {
  const answer = await chat(user(SUM));
  assert.match(answer.choices[0].message.content, /42/);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test("chat: streaming", async () => {
  const stream = await chat(user(COUNT), { stream: true, stream_options: { include_usage: true } });
  const chunks = await all(stream);
  const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  assert.equal(text, (await chat(user(COUNT))).choices[0].message.content);
  assert.ok(chunks.at(-1).usage.completion_tokens > 20);
});

test("chat: the stream helper", async () => {
  const stream = client.chat.completions.stream({ ...shared, messages: user(SUM) });
  assert.match(await stream.finalContent(), /42/);
});

for (const streamed of [false, true]) {
  test(`chat: a tool loop, streamed ${streamed}`, async () => {
    const cities = [];
    const run = (city) => { cities.push(city.city); return WEATHER; };
    const tool = { type: "function", function: { ...described, function: run, parse: JSON.parse } };
    const runner = client.chat.completions.runTools({
      ...shared, messages: user(ASK_WEATHER), tools: [tool], stream: streamed,
    });
    assert.match(await runner.finalContent(), /21/);
    assert.deepEqual(cities, ["Paris"]);
  });
}

test("chat: a forced call", async () => {
  const choice = { type: "function", function: { name: "get_weather" } };
  const answer = await chat(user("Hello there!"), { tools: [CHAT_TOOL], tool_choice: choice });
  const [call] = answer.choices[0].message.tool_calls;
  assert.equal(call.function.name, "get_weather");
  assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
});

test("chat: structured output", async () => {
  const format = zodResponseFormat(Verdict, "verdict");
  const answer = await client.chat.completions.parse({
    ...shared, messages: user(ASK_VERDICT), response_format: format, max_tokens: 500,
  });
  assert.equal(typeof answer.choices[0].message.parsed.sure, "boolean");
});

test("chat: errors", async () => {
  await assert.rejects(chat(user(SUM), { model: "nothing" }), OpenAI.NotFoundError);
  await assert.rejects(chat(user(SUM), { temperature: 9 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, "temperature");
    return true;
  });
});

test("completions: whole and streamed", async () => {
  const asked = { ...shared, prompt: "One, two,", max_tokens: 8 };
  const whole = await client.completions.create(asked);
  assert.equal(whole.object, "text_completion");
  const chunks = await all(await client.completions.create({ ...asked, stream: true }));
  assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? "").join(""), whole.choices[0].text);
});

test("responses: an answer, and one that follows", async () => {
  const first = await respond("My name is Ada.");
  assert.equal(first.status, "completed");
  assert.ok(first.usage.output_tokens > 0);
  const second = await respond("What is my name?", { previous_response_id: first.id });
  assert.match(second.output_text, /Ada/);
  assert.equal((await client.responses.retrieve(first.id)).output_text, first.output_text);
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
});

test("responses: streaming", async () => {
  const events = await all(await respond(COUNT, { stream: true }));
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
  const deltas = events.filter((event) => event.type === "response.output_text.delta");
  assert.ok(deltas.length > 1);
  assert.equal(deltas.map((event) => event.delta).join(""), (await respond(COUNT)).output_text);
  assert.equal(events.at(-1).type, "response.completed");
});

test("responses: the stream helper", async () => {
  const final = await client.responses.stream({ ...shared, input: SUM }).finalResponse();
  assert.match(final.output_text, /42/);
});

for (const streamed of [false, true]) {
  test(`responses: a tool loop, streamed ${streamed}`, async () => {
    const options = { ...shared, tools: [RESPONSES_TOOL] };
    const turn = (input) =>
      streamed
        ? client.responses.stream({ ...options, input }).finalResponse()
        : client.responses.create({ ...options, input });
    const first = await turn(user(ASK_WEATHER));
    const [call] = first.output.filter((item) => item.type === "function_call");
    assert.deepEqual([call.name, JSON.parse(call.arguments)], ["get_weather", { city: "Paris" }]);
    const result = { type: "function_call_output", call_id: call.call_id, output: WEATHER };
    assert.match((await turn([...user(ASK_WEATHER), ...first.output, result])).output_text, /21/);
  });
}

test("responses: structured output", async () => {
  const text = { format: zodTextFormat(Verdict, "verdict") };
  const answer = await client.responses.parse({ ...shared, input: ASK_VERDICT, text, max_output_tokens: 500 });
  assert.equal(typeof answer.output_parsed.sure, "boolean");
});

test("responses: errors", async () => {
  await assert.rejects(respond(SUM, { model: "nothing" }), OpenAI.NotFoundError);
  await assert.rejects(respond(SUM, { temperature: 9 }), OpenAI.BadRequestError);
});

test("azure: chat", async () => {
  const azure = new AzureOpenAI({ endpoint: BASE, apiKey: "none", apiVersion: "2024-10-21", deployment: "demo" });
  const answer = await azure.chat.completions.create({ ...shared, messages: user(SUM) });
  assert.match(answer.choices[0].message.content, /42/);
  const chunks = await all(await azure.chat.completions.create({ ...shared, messages: user(SUM), stream: true }));
  assert.match(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), /42/);
});
