// The Vercel AI SDK speaks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { experimental_generateSpeech, generateSpeech } from "ai";
import { BASE } from "./prompts.mjs";

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
