// What the demo model surely answers (prompts.py has the same), and where the server is.
export const BASE = process.env.ORCHARD_URL;
export const SUM = "What is 12 + 30?";
export const COUNT = "Count from 1 to 20";
export const ASK_WEATHER = "What's the weather in Paris?";
export const WEATHER = "21 degrees and sunny";
export const WEATHER_ABOUT = "Get the weather of a city";
export const WEATHER_SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const ASK_VERDICT = "Is the sky blue?";

export async function all(pieces) {
  const found = [];
  for await (const piece of pieces) found.push(piece);
  return found;
}
