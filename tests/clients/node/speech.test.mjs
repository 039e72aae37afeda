// The Vercel AI SDK speaks, and OpenAI's SDK gets spoken answers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { experimental_generateSpeech, generateSpeech } from "ai";
import OpenAI from "openai";
import { all, BASE, SUM } from "./prompts.mjs";

const openai = createOpenAI({ baseURL: `${BASE}/v1`, apiKey: "none" });
const model = openai.speech("mlx-community/Qwen3-TTS-12Hz-0.6B-CustomVoice-bf16");
const shared = { model, text: "Hello there.", maxRetries: 0 };
const HEADER = 44; // bytes of a WAV file without sound
const TYPES = { mp3: "audio/mpeg", wav: "audio/wav" };

for (const voice of [undefined, "alloy", "verse"]) {
  for (const [outputFormat, type] of Object.entries(TYPES)) {
    test(`${outputFormat} by the voice ${voice}`, async () => {
      const { audio, warnings } = await generateSpeech({ ...shared, voice, outputFormat });
      assert.equal(audio.mediaType, type);
      assert.ok(audio.uint8Array.length > HEADER);
      assert.deepEqual(warnings, []);
    });
  }
}

test("by its first name", async () => {
  assert.ok((await experimental_generateSpeech(shared)).audio.uint8Array.length > HEADER);
});

const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: "none", maxRetries: 0 });
const asked = { model: "demo", temperature: 0, modalities: ["text", "audio"], messages: [{ role: "user", content: SUM }] };

test("a spoken answer, and a later turn", async () => {
  const answer = await client.chat.completions.create({ ...asked, audio: { voice: "alloy", format: "wav" } });
  const { audio, content } = answer.choices[0].message;
  assert.equal(content, null);
  assert.match(audio.transcript, /42/);
  assert.ok(Buffer.from(audio.data, "base64").length > HEADER);
  const messages = [...asked.messages, { role: "assistant", audio: { id: audio.id } }, { role: "user", content: SUM }];
  const later = await client.chat.completions.create({ model: "demo", messages });
  assert.ok(later.choices[0].message.content);
});

test("a spoken answer as a stream", async () => {
  const audio = { voice: "alloy", format: "pcm16" };
  const chunks = await all(await client.chat.completions.create({ ...asked, audio, stream: true }));
  const told = chunks.map((chunk) => chunk.choices[0]?.delta.audio ?? {});
  assert.match(told.map((one) => one.transcript ?? "").join(""), /42/);
  assert.ok(told.some((one) => Buffer.from(one.data ?? "", "base64").length));
  assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
});
