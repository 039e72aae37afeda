// How to point other programs at this server: the documentation's page on clients, with this server's address and models.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { lexer } from "./vendor/marked.js";
import { call, getKey } from "./api.js";
import { Code, Markdown } from "./markdown.js";
import { CopyButton, Notice } from "./ui.js";

const QUESTION = "What is 12 + 30?";
const origin = location.origin;

// The APIs that the page tries: the path, the body for a model, and how the answer is read.
const APIS = [
  ["Chat Completions", "/v1/chat/completions", (model) => ({ model, messages: [{ role: "user", content: QUESTION }] }), (answer) => answer.choices[0].message.content],
  ["Responses", "/v1/responses", (model) => ({ model, input: QUESTION, store: false }), (answer) => answer.output.filter((item) => item.type === "message").map((item) => item.content[0].text).join("")],
  ["Ollama", "/api/chat", (model) => ({ model, stream: false, messages: [{ role: "user", content: QUESTION }] }), (answer) => answer.message.content],
  ["Messages (Anthropic)", "/v1/messages", (model) => ({ model, max_tokens: 500, messages: [{ role: "user", content: QUESTION }] }), (answer) => answer.content.filter((block) => block.type === "text").map((block) => block.text).join("")],
];

// Splits the documentation into entries: a paragraph with a snippet after it begins one. What a section says before its
// first one is an entry without a name.
function readClients(text) {
  const entries = [];
  let section = null;
  const tokens = lexer(text);
  tokens.forEach((token, index) => {
    if (token.type === "heading" && token.depth === 2) {
      section = token.text;
      return;
    }
    if (!section) return;
    const next = tokens.slice(index + 1).find((each) => each.type !== "space");
    if (token.type === "paragraph" && next?.type === "code") entries.push({ section, name: nameOf(token), tokens: [] });
    else if (entries.at(-1)?.section !== section) entries.push({ section, name: null, tokens: [] });
    entries.at(-1).tokens.push(token);
  });
  return entries;
}

const nameOf = (token) =>
  (token.text ?? "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[*`]/g, "").split(/[.:,]\s|[.:,]$/)[0];

// The documentation's models of other kinds.
const EXAMPLES = [
  ["embeddings", /(sentence-transformers\/)?all-MiniLM-L6-v2/g],
  ["rerank", /bge-reranker-v2-m3/g],
  ["transcription", /demo-whisper/g],
  ["speech", /mlx-community\/Qwen3-TTS-[\w.-]+/g],
  ["image", /black-forest-labs\/FLUX[\w.-]+/g],
];

// The snippets, with a model that is here in place of the documentation's.
function adapt(token, models, model) {
  const text = token.raw.replaceAll("http://127.0.0.1:8000", origin).replaceAll("ws://127.0.0.1:8000", origin.replace("http", "ws"));
  if (token.type !== "code") return text;
  return EXAMPLES.reduce(
    (changed, [kind, names]) => changed.replace(names, (name) => models.find((each) => each.kind === kind)?.id ?? name),
    text.replace(/\bdemo\b(?!-)/g, () => model?.id ?? "demo"),
  );
}

const inside = (href, children) => (/^https?:/.test(href) ? html`<a href=${href} target="_blank" rel="noopener noreferrer">${children}</a>` : children);

export function ConnectPage({ models, model, showMenu }) {
  const [clients, setClients] = useState([]);
  const [words, setWords] = useState("");
  const [chosen, setChosen] = useState(null);
  const able = models.filter((each) => each.architecture.output_modalities.includes("text"));
  const current = able.find((each) => each.id === chosen) ?? model;
  useEffect(() => {
    fetch("/console/clients.md").then((response) => response.text()).then((text) => setClients(readClients(text)));
  }, []);
  const entries = useMemo(() => clients.map((entry) => ({ ...entry, text: entry.tokens.map((token) => adapt(token, models, current)).join("") })), [clients, models, current?.id]);
  const shown = entries.filter((entry) => `${entry.section} ${entry.text}`.toLowerCase().includes(words.toLowerCase()));
  const sections = [...new Set(shown.map((entry) => entry.section))];
  return html`<main class="sheet">
    <header>${showMenu}<h1>Connect</h1>
      <select class="picker" aria-label="Model of the snippets" value=${current?.id ?? ""} onChange=${(event) => setChosen(event.target.value)}>
        ${able.map((each) => html`<option value=${each.id}>${each.id}</option>`)}
      </select>
    </header>
    <div class="body">
      <section class="card" aria-labelledby="addresses">
        <h2 id="addresses">Addresses</h2>
        <table class="facts"><tbody>
          ${[["OpenAI", `${origin}/v1`], ["Anthropic", origin], ["Azure OpenAI", origin], ["Ollama", origin], ["Model", current?.id ?? ""]].map(([name, value]) => html`<tr><th scope="row">${name}</th><td><code>${value}</code></td><td><${CopyButton} text=${value} label=${`Copy ${name}`} /></td></tr>`)}
        </tbody></table>
        <p class="note">${getKey() ? "This server asks for a key: put yours in the place of none." : "This server needs no key. Most clients insist on one: any value works."}</p>
      </section>
      <section class="card" aria-labelledby="try">
        <h2 id="try">Try it</h2>
        ${current ? APIS.map((api) => html`<${Trial} key=${api[0]} api=${api} model=${current} />`) : html`<p>No model here can answer.</p>`}
      </section>
      <label class="search">Find a client<input type="search" placeholder="LangChain, Codex, Open WebUI …" value=${words} onInput=${(event) => setWords(event.target.value)} /></label>
      ${sections.map((section) => html`<section key=${section} aria-label=${section}>
        <h2>${section}</h2>
        ${shown.filter((entry) => entry.section === section).map((entry) => entry.name === null
          ? html`<${Markdown} text=${entry.text} link=${inside} />`
          : html`<details class="client" key=${entry.text} open=${words.length > 1 && shown.length < 4}>
            <summary>${entry.name}</summary><${Markdown} text=${entry.text} link=${inside} />
          </details>`)}
      </section>`)}
      ${clients.length > 0 && !shown.length && html`<p class="note">No client of the documentation has these words. Most take the address of OpenAI's API.</p>`}
    </div>
  </main>`;
}

function Trial({ api: [name, path, makeBody, readAnswer], model }) {
  const [result, setResult] = useState(null);
  const body = makeBody(model.id);
  const key = getKey() ? " -H 'Authorization: Bearer KEY'" : "";
  const command = `curl ${origin}${path} -H 'Content-Type: application/json'${key} \\\n  -d '${JSON.stringify(body)}'`;
  const run = async () => {
    setResult({ text: "Waiting for the answer…" });
    const begin = performance.now();
    try {
      const answer = readAnswer(await call(path, { body }));
      setResult({ kind: "info", text: `Works, in ${((performance.now() - begin) / 1000).toFixed(2)} s: ${answer}` });
    } catch (error) {
      setResult({ kind: "error", text: error.message });
    }
  };
  return html`<details class="client">
    <summary>${name} <code>${path}</code></summary>
    <${Code} text=${command} language="bash" />
    <div class="buttons"><button type="button" onClick=${run}>Test ${name}</button></div>
    ${result && html`<${Notice} kind=${result.kind}>${result.text}<//>`}
  </details>`;
}
