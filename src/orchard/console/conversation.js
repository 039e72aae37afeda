// Conversations as the server has them. A conversation is a tree of responses: each continues another one, or begins a
// branch at the conversation itself. One that another program made with the field `conversation` has no branches: each
// response continues all before it.

import { ApiError, call, stream } from "./api.js";

const RUNNING = ["queued", "in_progress"];
const conversations = new Map();

export const isLocal = (id) => id.startsWith("local-");
export const isRunning = (node) => RUNNING.includes(node.status);

export class Conversation {
  constructor(id, title = "") {
    this.id = id;
    this.title = title;
    this.nodes = new Map(); // responses by id; one that has no id yet, or failed before it got one, has a local id
    this.listeners = new Set();
    this.loaded = false;
  }

  static async create(title) {
    const made = await call("/v1/conversations", { body: { metadata: { title }, pinned: true } });
    const conversation = new Conversation(made.id, title);
    conversation.loaded = true;
    conversations.set(made.id, conversation);
    return conversation;
  }

  // Returns the conversation with an id, and loads it unless this page has it. What runs in it is followed.
  static async open(id) {
    const known = conversations.get(id);
    if (known) return known;
    const about = await call(`/v1/conversations/${id}`);
    const conversation = new Conversation(id, about.metadata?.title ?? "");
    let after = "";
    for (;;) {
      const page = await call(`/v1/conversations/${id}/responses?order=asc&limit=100${after && `&after=${after}`}`);
      for (const response of page.data) {
        if (response.conversation) response.parent = conversation.newest()?.id;
        conversation.nodes.set(response.id, response);
      }
      if (!page.has_more) break;
      after = page.last_id;
    }
    conversation.loaded = true;
    conversations.set(id, conversation);
    for (const node of conversation.nodes.values()) if (isRunning(node)) conversation.follow(node);
    return conversation;
  }

  static async rename(id, title) {
    const { metadata } = await call(`/v1/conversations/${id}`);
    await call(`/v1/conversations/${id}`, { body: { metadata: { ...metadata, title } } });
    const known = conversations.get(id);
    if (known) {
      known.title = title;
      known.changed();
    }
  }

  static forget(id) {
    conversations.delete(id);
  }

  // What another key may see is asked anew, but no message is lost that the server has not taken.
  static forgetAll() {
    for (const [id, { nodes }] of conversations) if (![...nodes.keys()].some(isLocal)) conversations.delete(id);
  }

  changed() {
    this.version = (this.version ?? 0) + 1;
    for (const listener of this.listeners) listener();
  }

  // All responses, without what only this page knows of them.
  responses() {
    return [...this.nodes.values()].map(({ key, parent, firstToken, speed, stopping, ...response }) => response);
  }

  parentOf(node) {
    return node.parent ?? node.previous_response_id ?? this.id;
  }

  // Responses that continue the same one, oldest first.
  siblings(node) {
    return this.children(this.parentOf(node));
  }

  children(id) {
    const found = [...this.nodes.values()].filter((node) => this.parentOf(node) === id);
    return found.sort((a, b) => a.created_at - b.created_at);
  }

  // The responses from the beginning to `leaf`, and on along the newest ones; without a leaf, to the newest of all.
  path(leaf) {
    let node = this.nodes.get(leaf) ?? this.newest();
    const path = [];
    for (let each = node; each; each = this.nodes.get(this.parentOf(each))) path.unshift(each);
    while (node && (node = this.children(node.id).at(-1))) path.push(node);
    return path;
  }

  newest() {
    return [...this.nodes.values()].reduce((best, node) => (!best || node.created_at >= best.created_at ? node : best), null);
  }

  // Asks for a response that continues `parent`, which is a response's id or this conversation's; returns its node at
  // once. It runs in the background: it goes on if this page is closed, and can be stopped with what it has said so far.
  ask(parent, input, fields) {
    // Items of another branch are sent as new ones.
    const items = input.map(({ id, status, ...item }) => ({ type: "message", ...item }));
    const node = {
      id: `local-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`,
      status: "queued",
      created_at: Math.max(Date.now() / 1000, this.newest()?.created_at ?? 0),
      parent,
      conversation: this.nodes.get(parent)?.conversation ?? null,
      model: fields.model,
      input: items,
      output: [],
    };
    node.key = node.id; // its element stays when it gets its id
    this.nodes.set(node.id, node);
    this.changed();
    const past = node.conversation ? { conversation: this.id } : { previous_response_id: parent };
    const body = { ...fields, ...past, input: items, background: true, stream: true };
    this.listen(node, "/v1/responses", { body });
    return node;
  }

  follow(node) {
    node.output = [];
    this.listen(node, `/v1/responses/${node.id}?stream=true`);
  }

  async listen(node, path, options) {
    let next = 0; // when the page is to show more: painting takes at most a third of the time
    try {
      for await (const event of stream(path, options)) {
        this.apply(node, event);
        const begin = performance.now();
        if (begin > next || event.type.startsWith("response.output_item")) {
          this.changed();
          await new Promise((resolve) => setTimeout(resolve)); // let the page paint
          const end = performance.now();
          next = end + Math.max(60, 2 * (end - begin));
        }
      }
      if (isRunning(node)) await this.refresh(node); // the stream of a cancelled response has no last event
    } catch (error) {
      await this.lose(node, error);
    }
    this.changed();
  }

  // The connection broke, or the request was refused.
  async lose(node, error) {
    if (!(error instanceof ApiError)) error = new ApiError(0, { message: "The connection to the server broke." });
    if (!error.status && !isLocal(node.id)) {
      try {
        return await this.refresh(node);
      } catch {
        // the server is gone, too
      }
    }
    node.status = "failed";
    node.error = { code: error.code, message: error.message };
  }

  async refresh(node) {
    const input = node.input;
    Object.assign(node, await call(`/v1/responses/${node.id}`), { input });
    if (isRunning(node)) this.follow(node);
  }

  apply(node, event) {
    const item = node.output[event.output_index];
    switch (event.type) {
      case "response.created": {
        this.nodes.delete(node.id);
        const { id, created_at, status, model } = event.response;
        Object.assign(node, { id, created_at, status, model });
        this.nodes.set(id, node);
        if (node.stopping) this.stop(node).catch(() => {});
        break;
      }
      case "response.output_item.added":
        node.firstToken ??= performance.now();
        node.status = "in_progress";
        node.output[event.output_index] = { ...event.item, content: [...(event.item.content ?? [])] };
        break;
      case "response.content_part.added":
        item.content[event.content_index] = { ...event.part };
        break;
      case "response.output_text.delta":
      case "response.reasoning_text.delta": {
        const part = (item.content[event.content_index] ??= { type: "reasoning_text", text: "" });
        part.text += event.delta;
        break;
      }
      case "response.function_call_arguments.delta":
        item.arguments += event.delta;
        break;
      case "response.custom_tool_call_input.delta":
        item.input += event.delta;
        break;
      case "response.output_item.done":
        node.output[event.output_index] = event.item;
        break;
      case "response.completed":
      case "response.incomplete":
      case "response.failed": {
        const seconds = (performance.now() - node.firstToken) / 1000; // of a short answer, all pieces may come at once
        const { input } = node;
        Object.assign(node, event.response, { input });
        if (seconds > 0.5) node.speed = node.usage?.output_tokens / seconds;
        break;
      }
      case "error":
        node.error = event.error ?? event;
        break;
      default:
    }
  }

  async stop(node) {
    node.stopping = true;
    this.changed();
    if (isLocal(node.id)) return; // once it has an id
    await call(`/v1/responses/${node.id}/cancel`, { method: "POST" });
  }

  // Forgets a question that the server has refused.
  drop(node) {
    this.nodes.delete(node.id);
    this.changed();
  }
}

// The texts of an item's parts.
export const textOf = (item) =>
  (item.content ?? []).map((part) => part?.text ?? "").filter(Boolean).join("\n\n");

export function asMarkdown(conversation, path) {
  const lines = [`# ${conversation.title || "Conversation"}`];
  for (const node of path) {
    for (const item of [...node.input, ...node.output]) {
      if (item.type === "message") lines.push(`## ${item.role === "user" ? "You" : node.model}`, messageText(item));
      else if (item.type === "function_call") lines.push(`## ${node.model} calls ${item.name}`, "```json", item.arguments, "```");
      else if (item.type === "function_call_output") lines.push("## Result", typeof item.output === "string" ? item.output : JSON.stringify(item.output));
    }
  }
  return `${lines.join("\n\n")}\n`;
}

const messageText = (item) =>
  item.content.map((part) => part.text ?? `(${part.filename ?? part.type.replace("input_", "")})`).join("\n\n");
