// The page with one conversation.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { Composer } from "./composer.js";
import { asMarkdown, Conversation, isLocal, isRunning, textOf } from "./conversation.js";
import { Markdown } from "./markdown.js";
import { CopyButton, Icon, IconButton, Notice, save } from "./ui.js";

const SETTINGS = "orchard.settings";
const NUMBERS = [
  ["temperature", "Temperature", 0, 2, 0.1],
  ["top_p", "Top p", 0, 1, 0.05],
  ["top_k", "Top k", 0, 1000, 1],
  ["min_p", "Min p", 0, 1, 0.01],
  ["max_output_tokens", "Most tokens", 1, 1000000, 1],
  ["seed", "Seed", 0, 2147483647, 1],
];
const MAKE_ROOM = " Delete conversations in the list to make room.";
const EFFORTS = ["none", "minimal", "low", "medium", "high"];

function readSettings() {
  try {
    return JSON.parse(localStorage.getItem(SETTINGS)) ?? {};
  } catch {
    return {};
  }
}

// The fields of a request that the drawer sets. Throws if a JSON text is wrong.
function requestFields(settings) {
  const fields = {};
  for (const [name] of NUMBERS) if (settings[name] !== undefined && settings[name] !== "") fields[name] = Number(settings[name]);
  if (settings.instructions?.trim()) fields.instructions = settings.instructions;
  if (settings.effort) fields.reasoning = { effort: settings.effort };
  if (settings.schema?.trim()) {
    fields.text = { format: { type: "json_schema", name: "answer", strict: true, schema: parseJson(settings.schema, "The JSON schema") } };
  }
  if (settings.tools?.trim()) fields.tools = [parseJson(settings.tools, "The tools")].flat();
  return fields;
}

function parseJson(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} can't be read as JSON: ${error.message}`);
  }
}

export function ChatPage({ id, leaf, model, models, ready, onModel, onOpen, onChange, showMenu }) {
  const [conversation, setConversation] = useState(null);
  const [, setVersion] = useState(0);
  const [problem, setProblem] = useState(null);
  const [settings, setSettings] = useState(readSettings);
  const [drawer, setDrawer] = useState(false);
  const [dropping, setDropping] = useState(false);
  const addFiles = useRef();
  const scroller = useRef();
  const atEnd = useRef(true);
  const branch = useRef(null); // the one that a button has just chosen: its id, and the label of the button

  useEffect(() => {
    let current = true;
    setProblem(null);
    if (!id) {
      setConversation(null);
      return undefined;
    }
    Conversation.open(id).then(
      (found) => current && setConversation(found),
      (error) => current && setProblem({ kind: "error", text: error.message }),
    );
    return () => { current = false; };
  }, [id]);

  useEffect(() => {
    if (!conversation) return undefined;
    const update = () => setVersion((version) => version + 1);
    conversation.listeners.add(update);
    return () => conversation.listeners.delete(update);
  }, [conversation]);

  const shown = conversation && conversation.id === id ? conversation : null;
  const path = shown ? shown.path(leaf) : [];
  const last = path.at(-1);
  const running = last && isRunning(last) ? last : null;

  // A conversation goes on with its model.
  useEffect(() => {
    const used = shown?.path(leaf).at(-1)?.model;
    if (models.some((each) => each.id === used)) onModel(used);
  }, [shown, ready]);

  useEffect(() => {
    const box = scroller.current;
    if (atEnd.current) box.scrollTop = box.scrollHeight;
  });
  useEffect(() => { // the button is another one now
    const chosen = branch.current;
    const buttons = chosen && document.getElementById(`branches-${chosen.id}`);
    if (!buttons) return;
    (buttons.querySelector(`[aria-label="${chosen.label}"]:enabled`) ?? buttons.querySelector("button:enabled")).focus();
    branch.current = null;
  });
  const onScroll = () => {
    const box = scroller.current;
    atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  };

  const report = (text, kind = "error") => setProblem({ kind, text });
  const update = (changes) => {
    const next = { ...settings, ...changes };
    setSettings(next);
    localStorage.setItem(SETTINGS, JSON.stringify(next));
  };

  const ask = async (input, parent, on = shown) => {
    setProblem(null);
    const byKeyboard = document.activeElement?.matches(":focus-visible");
    if (!model) return report("There is no model that can answer. The page Server shows what is here.");
    let fields;
    try {
      fields = { model: model.id, ...requestFields(settings) };
    } catch (error) {
      setDrawer(true);
      return report(error.message);
    }
    try {
      const target = on ?? (await Conversation.create(titleFor(input)));
      const node = target.ask(parent ?? target.id, input, fields);
      atEnd.current = true;
      setConversation(target);
      onOpen(target.id);
      if (!on) onChange();
      if (byKeyboard) document.querySelector(".composer textarea").focus(); // the button that was pressed is gone
      return node;
    } catch (error) {
      return report(error.message + (error.code === "store_full" ? MAKE_ROOM : ""));
    }
  };
  const send = (content) => {
    const answered = path.filter((node) => !isLocal(node.id)).at(-1);
    return ask([{ role: "user", content }], answered?.id);
  };
  const retry = (node) => {
    if (isLocal(node.id)) shown.drop(node);
    return ask(node.input, shown.parentOf(node));
  };
  const edit = (node, text) => {
    const input = node.input.map((item) =>
      item.role === "user" ? { ...item, content: [...item.content.filter((part) => part.type !== "input_text"), { type: "input_text", text }] } : item);
    return ask(input, shown.parentOf(node));
  };
  const select = (node, label) => {
    branch.current = { id: node.id, label };
    onOpen(shown.id, node.id);
  };
  const answerCall = (node, calls) => ask(calls, node.id);
  const stop = () => running && shown.stop(running).catch((error) => report(error.message));

  useEffect(() => {
    const onKey = (event) => event.key === "Escape" && !document.querySelector("dialog[open]") && stop();
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });

  const onDrop = (event) => {
    event.preventDefault();
    setDropping(false);
    addFiles.current?.([...event.dataTransfer.files]);
  };
  const exportAs = (kind) => {
    const name = (shown.title || "conversation").replace(/[^\w\- ]+/g, "").slice(0, 60);
    if (kind === "json") save(`${name}.json`, JSON.stringify({ id: shown.id, title: shown.title, responses: shown.responses() }, null, 2), "application/json");
    else save(`${name}.md`, asMarkdown(shown, path), "text/markdown");
  };
  useEffect(() => {
    const onExport = (event) => shown && exportAs(event.detail);
    document.addEventListener("orchard-export", onExport);
    return () => document.removeEventListener("orchard-export", onExport);
  });

  const chatModels = models.filter((each) => each.architecture.output_modalities.includes("text"));
  return html`<main class="chat" onDragOver=${(event) => { event.preventDefault(); setDropping(true); }}
      onDragLeave=${(event) => event.relatedTarget === null && setDropping(false)} onDrop=${onDrop}>
    <header>
      ${showMenu}
      <select class="picker" aria-label="Model" value=${model?.id ?? ""} onChange=${(event) => onModel(event.target.value)}>
        ${ready && !model && html`<option value="">no model</option>`}
        ${chatModels.map((each) => html`<option value=${each.id}>${each.id}${each.loaded ? "" : " (not loaded)"}</option>`)}
      </select>
      <h1>${shown?.title ?? "New chat"}</h1>
      <${IconButton} icon="sliders" label="Settings of this chat" aria-expanded=${drawer} onClick=${() => setDrawer(!drawer)} />
    </header>
    <div class="content">
      <div class="thread" ref=${scroller} tabindex="0" role="region" aria-label="Messages" onScroll=${onScroll}>
        <div class="messages" role="log" aria-label="Conversation" aria-live="off">
          ${!id && ready && html`<${Welcome} model=${model} />`}
          ${path.map((node) => html`<${Turn} key=${node.key ?? node.id} node=${node} conversation=${shown} version=${shown.version} last=${node === last}
            onRetry=${retry} onEdit=${edit} onSelect=${select} onResults=${answerCall} />`)}
        </div>
        <p class="hidden" role="status">${running ? "The model is answering." : last ? "The answer is complete." : ""}</p>
      </div>
      ${problem && html`<${Notice} kind=${problem.kind} onClose=${() => setProblem(null)}>
        ${problem.text}
      <//>`}
      <${Composer} model=${model} models=${models} ready=${ready} busy=${Boolean(running)} onSend=${send} onStop=${stop} onProblem=${report} onModel=${onModel}
        registerDrop=${(add) => { addFiles.current = add; }} />
    </div>
    ${drawer && html`<${Drawer} settings=${settings} onChange=${update} onClose=${() => setDrawer(false)} />`}
    ${dropping && html`<div class="drop" aria-hidden="true"><${Icon} name="attach" /> Drop files to attach them</div>`}
  </main>`;
}

function titleFor(input) {
  const text = input.map(textOf).join(" ").trim().replace(/\s+/g, " ");
  return text ? (text.length > 60 ? `${text.slice(0, 59)}…` : text) : "New chat";
}

const Welcome = ({ model }) => html`<div class="welcome">
  <img src="/console/icon.svg" alt="" width="56" height="56" />
  <h2>${model ? `Talk to ${model.id}` : "No model can answer yet"}</h2>
  <p>${model ? "Everything stays on this server. Drop in pictures, sound, PDFs or texts." : "Load or download one on the page Server."}</p>
  <p><kbd>Ctrl</kbd> <kbd>K</kbd> finds everything.</p>
</div>`;

// A question and its answer.
function Turn({ node, conversation, last, onRetry, onEdit, onSelect, onResults }) {
  const siblings = conversation.siblings(node);
  const place = siblings.indexOf(node);
  const running = isRunning(node);
  const text = node.output.filter((item) => item?.type === "message").map(textOf).join("\n\n");
  const calls = node.output.filter((item) => item?.type === "function_call" || item?.type === "custom_tool_call");
  const step = (icon, label, other) => html`<${IconButton} icon=${icon} label=${label} disabled=${!other} onClick=${() => onSelect(other, label)} />`;
  const branches = siblings.length > 1 && html`<span class="branches" role="group" aria-label="Branches" id=${`branches-${node.id}`}>
    ${step("left", "Previous branch", siblings[place - 1])}
    <span>${place + 1} / ${siblings.length}</span>
    ${step("right", "Next branch", siblings[place + 1])}
  </span>`;
  return html`
    ${node.input.map((item) => html`<${Question} item=${item} locked=${running || node.conversation} onEdit=${(changed) => onEdit(node, changed)} />`)}
    <article class="answer" aria-label=${`Answer of ${node.model}`}>
      ${node.output.map((item) => item && html`<${Output} item=${item} running=${running} />`)}
      ${running && !node.output.length && html`<p class="waiting">${node.stopping ? "Stopping" : node.status === "queued" ? "Waiting for the model" : "Reading"}…</p>`}
      ${node.status === "failed" && html`<${Notice} kind="error">${node.error?.message ?? "The answer failed."}${node.error?.code === "store_full" ? MAKE_ROOM : ""}<//>`}
      ${node.status === "cancelled" && html`<p class="note">Stopped.</p>`}
      ${node.status === "incomplete" && html`<p class="note">Cut off: ${node.incomplete_details?.reason === "max_output_tokens" ? "it has reached the most tokens" : node.incomplete_details?.reason}.</p>`}
      ${!running && last && calls.length > 0 && html`<${Results} calls=${calls} onDone=${(results) => onResults(node, results)} />`}
      ${!running && html`<footer>
        ${branches}
        ${text && html`<${CopyButton} text=${text} label="Copy answer" />`}
        ${!node.conversation && html`<${IconButton} icon="retry" label="Answer again" onClick=${() => onRetry(node)} />`}
        <small>${node.model}${node.usage ? `, ${node.usage.output_tokens} tokens` : ""}${node.speed ? `, ${node.speed.toFixed(node.speed < 10 ? 1 : 0)} tokens/s` : ""}</small>
      </footer>`}
    </article>`;
}

function Question({ item, locked, onEdit }) {
  const [edits, setEdits] = useState(false);
  const [gaveUp, setGaveUp] = useState(false);
  const box = useRef();
  useEffect(() => { if (gaveUp && !edits) box.current.querySelector("button:last-child").focus(); }, [edits]);
  if (item.type === "function_call_output" || item.type === "custom_tool_call_output") {
    return html`<details class="tool" open><summary><${Icon} name="tool" /> Result</summary><pre tabindex="0">${typeof item.output === "string" ? item.output : JSON.stringify(item.output, null, 2)}</pre></details>`;
  }
  const text = textOf(item);
  if (edits) {
    const onDone = (changed) => {
      setEdits(false);
      setGaveUp(!changed);
      if (changed) onEdit(changed);
    };
    return html`<${Edit} text=${text} onDone=${onDone} />`;
  }
  return html`<article class="question" aria-label="Your message" ref=${box}>
    ${(item.content ?? []).map((part) => html`<${Part} part=${part} />`)}
    ${!locked && item.role === "user" && html`<footer><${CopyButton} text=${text} label="Copy message" /><${IconButton} icon="edit" label="Edit message" onClick=${() => setEdits(true)} /></footer>`}
  </article>`;
}

function Edit({ text, onDone }) {
  const [draft, setDraft] = useState(text);
  const field = useRef();
  useLayoutEffect(() => field.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    onDone(draft.trim());
  };
  const onKeyDown = (event) => {
    if (event.key === "Escape") onDone("");
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return html`<form class="question editing" onSubmit=${submit}>
    <textarea ref=${field} aria-label="Edit message" value=${draft} rows=${Math.min(10, draft.split("\n").length + 1)} onInput=${(event) => setDraft(event.target.value)} onKeyDown=${onKeyDown}></textarea>
    <div class="buttons"><button type="button" onClick=${() => onDone("")}>Cancel</button><button type="submit" class="primary" disabled=${!draft.trim()}>Send as a new branch</button></div>
  </form>`;
}

function Part({ part }) {
  switch (part.type) {
    case "input_text":
      return html`<p class="plain">${part.text}</p>`;
    case "input_image":
      // A picture elsewhere isn't fetched by this page.
      return part.image_url?.startsWith("data:image/") ? html`<img src=${part.image_url} alt="Attached picture" />` : html`<p class="chip"><${Icon} name="attach" /> ${part.image_url}</p>`;
    case "input_audio": {
      const { data = "", format = "wav" } = part.input_audio ?? {};
      return html`<audio controls src=${data.startsWith("data:") ? data : `data:audio/${format};base64,${data}`} aria-label="Attached sound"></audio>`;
    }
    case "input_video":
      return part.video_url?.startsWith("data:video/") ? html`<video controls src=${part.video_url} aria-label="Attached video"></video>` : null;
    default:
      return html`<p class="chip"><${Icon} name="attach" /> ${part.filename ?? part.type}</p>`;
  }
}

function Output({ item, running }) {
  switch (item.type) {
    case "message":
      return (item.content ?? []).map((part) => part && html`<${Markdown} text=${part.text ?? part.refusal ?? ""} />`);
    case "reasoning": {
      const text = textOf(item);
      if (!text) return null;
      return html`<details class="reasoning"><summary>${running && item.status !== "completed" ? "Reasoning…" : "Reasoning"}</summary><p class="plain">${text}</p></details>`;
    }
    case "function_call":
    case "custom_tool_call":
      return html`<details class="tool" open><summary><${Icon} name="tool" /> Calls <code>${item.name}</code></summary><pre tabindex="0">${pretty(item.arguments ?? item.input ?? "")}</pre></details>`;
    default:
      return html`<details class="tool"><summary>${item.type}</summary><pre tabindex="0">${JSON.stringify(item, null, 2)}</pre></details>`;
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// The model waits for what its tools return, which the user writes.
function Results({ calls, onDone }) {
  const [results, setResults] = useState(() => calls.map(() => ""));
  const submit = (event) => {
    event.preventDefault();
    onDone(calls.map((call, index) => ({ type: call.type === "function_call" ? "function_call_output" : "custom_tool_call_output", call_id: call.call_id, output: results[index] })));
  };
  return html`<form class="results" onSubmit=${submit}>
    ${calls.map((call, index) => html`<label>Result of <code>${call.name}</code>
      <textarea rows="2" value=${results[index]} onInput=${(event) => setResults(results.map((each, place) => (place === index ? event.target.value : each)))}></textarea>
    </label>`)}
    <div class="buttons"><button type="submit" class="primary">Send the result</button></div>
  </form>`;
}

function Drawer({ settings, onChange, onClose }) {
  const set = (name) => (event) => onChange({ [name]: event.target.value });
  const count = useMemo(() => Object.values(settings).filter((value) => value !== "" && value !== undefined).length, [settings]);
  const box = useRef();
  useLayoutEffect(() => {
    const before = document.activeElement;
    box.current.querySelector("header button").focus();
    return () => before?.focus();
  }, []);
  const onKeyDown = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // it would stop an answer
    onClose();
  };
  return html`<aside class="drawer" aria-label="Settings of this chat" ref=${box} onKeyDown=${onKeyDown}>
    <header><h2>Settings</h2><${IconButton} icon="close" label="Close the settings" onClick=${onClose} /></header>
    <label>System prompt<textarea rows="4" value=${settings.instructions ?? ""} onInput=${set("instructions")} placeholder="None"></textarea></label>
    <div class="grid">
      ${NUMBERS.map(([name, label, min, max, step]) => html`<label>${label}<input type="number" min=${min} max=${max} step=${step} value=${settings[name] ?? ""} placeholder="default" onInput=${set(name)} /></label>`)}
      <label>Reasoning<select value=${settings.effort ?? ""} onChange=${set("effort")}><option value="">default</option>${EFFORTS.map((effort) => html`<option value=${effort}>${effort}</option>`)}</select></label>
    </div>
    <label>JSON schema of the answer<textarea rows="4" class="mono" spellcheck="false" value=${settings.schema ?? ""} onInput=${set("schema")} placeholder=${'{"type": "object", …}'}></textarea></label>
    <label>Tools, as in the Responses API<textarea rows="4" class="mono" spellcheck="false" value=${settings.tools ?? ""} onInput=${set("tools")} placeholder=${'[{"type": "function", "name": …}]'}></textarea></label>
    <div class="buttons"><button type="button" disabled=${!count} onClick=${() => onChange(Object.fromEntries(Object.keys(settings).map((name) => [name, ""])))}>Back to the defaults</button></div>
    <p class="note">They apply to the next answers, in this browser.</p>
  </aside>`;
}
