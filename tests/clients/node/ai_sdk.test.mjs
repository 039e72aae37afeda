// The Vercel AI SDK over Chat Completions, Responses and Anthropic's Messages.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { all, ASK_VERDICT, ASK_WEATHER, BASE, COUNT, SUM, WEATHER, WEATHER_ABOUT } from "./prompts.mjs";

const settings = { baseURL: `${BASE}/v1`, apiKey: "none" };
const openai = createOpenAI(settings);
const compatible = createOpenAICompatible({
  name: "orchard", includeUsage: true, supportsStructuredOutputs: true, ...settings,
});
const anthropic = createAnthropic(settings);
const DIALECTS = {
  chat: (name) => openai.chat(name),
  responses: (name) => openai.responses(name),
  compatible: (name) => compatible(name),
  anthropic: (name) => anthropic(name),
};
const quiet = { maxRetries: 0, temperature: 0, maxOutputTokens: 500 };
const Verdict = z.object({ answer: z.enum(["yes", "no"]), sure: z.boolean() });

for (const [dialect, model] of Object.entries(DIALECTS)) {
  describe(dialect, () => {
    const shared = { ...quiet, model: model("demo") };

    test("an answer", async () => {
      const answer = await generateText({ ...shared, instructions: "Be brief.", prompt: SUM });
      assert.match(answer.text, /42/);
      assert.equal(answer.finishReason, "stop");
      assert.ok(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
    });

    test("streaming", async () => {
      const stream = streamText({ ...shared, prompt: COUNT });
      const pieces = await all(stream.textStream);
      assert.equal(pieces.join(""), (await generateText({ ...shared, prompt: COUNT })).text);
      assert.equal(await stream.finishReason, "stop");
      assert.ok((await stream.usage).outputTokens > 20);
    });

    test("a new answer comes in pieces", async () => {
      // One that was given before is guessed, and may come at once.
      const prompt = `Repeat this: ${Array.from({ length: 12 }, () => Math.random().toString(36).slice(2, 7)).join(" ")}`;
      const pieces = await all(streamText({ ...shared, prompt }).textStream);
      assert.ok(pieces.length > 1);
    });

    test("a conversation of three turns", async () => {
      const messages = [];
      const prompts = [];
      for (const content of [SUM, COUNT, SUM]) {
        messages.push({ role: "user", content });
        const answer = await generateText({ ...shared, messages });
        messages.push(...answer.response.messages);
        prompts.push(answer.usage.inputTokens);
      }
      assert.ok(prompts[0] < prompts[1] && prompts[1] < prompts[2]);
    });

    for (const ask of [generateText, streamText]) {
      test(`a tool loop by ${ask.name}`, async () => {
        const cities = [];
        const execute = async ({ city }) => { cities.push(city); return WEATHER; };
        const inputSchema = z.object({ city: z.string() });
        const tools = { get_weather: tool({ description: WEATHER_ABOUT, inputSchema, execute }) };
        const run = await ask({ ...shared, prompt: ASK_WEATHER, tools, stopWhen: isStepCount(3) });
        assert.match(await run.text, /21/);
        assert.deepEqual(cities, ["Paris"]);
        assert.equal((await run.steps)[0].finishReason, "tool-calls");
      });
    }

    test("a forced call", async () => {
      const tools = { get_weather: tool({ inputSchema: z.object({ city: z.string() }) }) };
      const choice = { type: "tool", toolName: "get_weather" };
      const run = await generateText({ ...shared, prompt: "Hello there!", tools, toolChoice: choice });
      assert.deepEqual(run.toolCalls.map((call) => call.toolName), ["get_weather"]);
    });

    test("structured output", async () => {
      const run = await generateText({ ...shared, prompt: ASK_VERDICT, output: Output.object({ schema: Verdict }) });
      assert.equal(typeof run.output.sure, "boolean");
    });

    test("errors", async () => {
      await assert.rejects(generateText({ ...quiet, model: model("nothing"), prompt: SUM }), (error) => {
        assert.ok(APICallError.isInstance(error));
        assert.equal(error.statusCode, 404);
        assert.match(error.message, /nothing/);
        return true;
      });
    });
  });
}
