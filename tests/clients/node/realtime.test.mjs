// Realtime sessions through OpenAI's SDK, and through its Agents SDK. The server says the last digit of an answer.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import net from "node:net";
import { after, test } from "node:test";
import { RealtimeAgent, RealtimeSession, tool } from "@openai/agents-realtime";
import OpenAI, { toFile } from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { z } from "zod";
import { BASE, WEATHER } from "./prompts.mjs";

const RATE = 24_000;
const HEADER = 44; // bytes of a WAV file without sound
const SILENCE = Buffer.alloc(2 * RATE);
const FILE = readFileSync(process.env.ORCHARD_SPEECH);
const SPEECH = Buffer.concat([FILE.subarray(HEADER), SILENCE]);
const [SAID, ANSWER] = ["two four", "eight"]; // the demo model multiplies what it hears
const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: "none", maxRetries: 0 });

/** Return what demo-whisper hears in samples. */
async function hear(sound) {
  const samples = Buffer.concat([SILENCE, sound, SILENCE]);
  const header = Buffer.from(FILE.subarray(0, HEADER));
  header.writeUInt32LE(36 + samples.length, 4);
  header.writeUInt32LE(samples.length, 40);
  const file = await toFile(Buffer.concat([header, samples]), "sound.wav");
  return (await client.audio.transcriptions.create({ model: "ears", file })).text.trim();
}

function* pieces(sound) {
  for (let at = 0; at < sound.length; at += 9600) yield sound.subarray(at, at + 9600);
}

for (const type of ["server_vad", "semantic_vad"]) {
  test(`OpenAI's SDK: a spoken calculation, ${type}`, async () => {
    // The SDK only knows wss://, and this server has no certificate.
    const createConnection = ({ host, port }) => net.connect({ host, port });
    const socket = new OpenAIRealtimeWS({ model: "assistant", options: { createConnection } }, client);
    const sound = [];
    let said = "";
    socket.on("response.output_audio.delta", (event) => sound.push(Buffer.from(event.delta, "base64")));
    socket.on("response.output_audio_transcript.delta", (event) => (said += event.delta));
    const done = new Promise((resolve, reject) => {
      socket.on("response.done", resolve);
      socket.on("error", reject);
    });
    socket.on("session.created", () => {
      socket.send({ type: "session.update", session: { type: "realtime", audio: { input: { turn_detection: { type } } } } });
      for (const piece of pieces(SPEECH)) {
        socket.send({ type: "input_audio_buffer.append", audio: piece.toString("base64") });
      }
    });
    assert.equal((await done).response.status, "completed");
    socket.close();
    assert.equal(said, "2 × 4 = 8");
    assert.equal(await hear(Buffer.concat(sound)), ANSWER);
  });
}

const opened = [];
after(() => opened.forEach((session) => session.close()));

/** Open a session of the Agents SDK with its own settings: semantic_vad, and OpenAI's name of a transcriber. */
async function open(agent) {
  const session = new RealtimeSession(agent, { transport: "websocket", model: "assistant", tracingDisabled: true });
  const heard = { session, sound: [], events: [], waiting: [] };
  opened.push(session);
  session.on("audio", ({ data }) => heard.sound.push(Buffer.from(data)));
  session.on("error", ({ error }) => heard.waiting.forEach(({ reject }) => reject(new Error(JSON.stringify(error)))));
  session.transport.on("*", (event) => {
    heard.events.push(event);
    heard.waiting = heard.waiting.filter(({ type, resolve }) => type !== event.type || resolve(event));
  });
  heard.until = (type) =>
    new Promise((resolve, reject) => heard.waiting.push({ type, resolve: (event) => void resolve(event), reject }));
  heard.say = (sound) => {
    for (const piece of pieces(sound)) session.sendAudio(Uint8Array.from(piece).buffer);
  };
  await session.connect({ apiKey: "none", url: `${BASE.replace("http", "ws")}/v1/realtime?model=assistant` });
  return heard;
}

test("the Agents SDK: a spoken calculation", async () => {
  const heard = await open(new RealtimeAgent({ name: "helper", instructions: "Be brief." }));
  const done = heard.until("response.done");
  heard.say(SPEECH);
  await done;
  const texts = heard.session.history.map((item) => [item.role, item.content[0].transcript]);
  assert.deepEqual(texts, [["user", SAID], ["assistant", "2 × 4 = 8"]]);
  assert.equal(await hear(Buffer.concat(heard.sound)), ANSWER);
});

test("the Agents SDK: an interruption in the middle of a word", async (context) => {
  context.mock.timers.enable({ apis: ["Date"], now: Date.now() }); // by which the SDK knows how much was played
  const heard = await open(new RealtimeAgent({ name: "helper" }));
  const begun = heard.until("response.output_audio.delta");
  heard.session.sendMessage("What is 3 + 5?");
  await begun;
  context.mock.timers.tick(150); // the word is longer
  const truncated = heard.until("conversation.item.truncated");
  const heardAll = heard.until("conversation.item.input_audio_transcription.completed");
  heard.say(SPEECH);
  assert.equal((await truncated).audio_end_ms, 150);
  await heardAll;
  const { transcript } = await heard.until("response.output_audio_transcript.done");
  assert.match(transcript, /^2 [+×] 4 = [68]$/);
});

test("the Agents SDK: a tool", async () => {
  const cities = [];
  const weather = tool({
    name: "get_weather",
    description: "Get the weather of a city.",
    parameters: z.object({ city: z.string() }),
    execute: ({ city }) => (cities.push(city), WEATHER),
  });
  const heard = await open(new RealtimeAgent({ name: "helper", tools: [weather] }));
  const spoken = heard.until("response.output_audio_transcript.done");
  heard.session.sendMessage("What is the weather in Paris?");
  assert.match((await spoken).transcript, /21/);
  assert.deepEqual(cities, ["Paris"]);
});
