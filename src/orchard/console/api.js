// Requests to the server that this page comes from.

const KEY = "orchard.key";

export const events = new EventTarget(); // "need-key": the server has refused the key, or wants one

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message || `The server answered with status ${status}.`);
    this.status = status;
    this.code = error?.code ?? null;
  }
}

export const getKey = () => sessionStorage.getItem(KEY) || "";

export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

// Returns a Response whose status is fine. `body` is JSON, or a form.
export async function send(path, { method, body, signal } = {}) {
  const headers = {};
  const key = getKey();
  if (key) headers.authorization = `Bearer ${key}`;
  const isForm = body instanceof FormData;
  if (body !== undefined && !isForm) headers["content-type"] = "application/json";
  const content = body === undefined || isForm ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { method: method || (body === undefined ? "GET" : "POST"), headers, body: content, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "The server can't be reached. Is it still running?" });
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  if (response.status === 401) events.dispatchEvent(new CustomEvent("need-key"));
  throw new ApiError(response.status, told?.error);
}

export async function call(path, options) {
  return (await send(path, options)).json();
}

// Yields the data of server-sent events, decoded.
export async function* stream(path, options) {
  const response = await send(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
        if (data && data !== "[DONE]") yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
