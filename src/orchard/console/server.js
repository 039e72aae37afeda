// What the server does: models, requests, speed, caches, its log and its settings.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { call } from "./api.js";
import { bytes, IconButton, Notice, usePolling } from "./ui.js";

const TABS = ["Models", "Requests", "Cache", "Log", "Settings"];
const MOVING = ["queued", "loading", "unloading"];
const WINDOW = 600;

const useReport = (path, seconds, inputs = []) => {
  const [report, setReport] = useState(null);
  const [problem, setProblem] = useState(null);
  const read = async () => {
    try {
      setReport(await call(path));
      setProblem(null);
    } catch (error) {
      setProblem(error);
    }
  };
  usePolling(read, seconds, [path, ...inputs]);
  return [report, problem, read];
};

const Problem = ({ error }) => error && html`<${Notice} kind="error">${error.message}<//>`;

export function ServerPage({ models, onModels, showMenu }) {
  const [tab, setTab] = useState("Models");
  const [health, problem, readHealth] = useReport("/health", 3);
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = TABS[(TABS.indexOf(tab) + step + TABS.length) % TABS.length];
    setTab(next);
    document.getElementById(`tab-${next}`).focus();
  };
  return html`<main class="sheet">
    <header>${showMenu}<h1>Server</h1><small>${health?.version ? `Orchard ${health.version}` : ""}</small></header>
    <div class="tabs" role="tablist" aria-label="Parts of the server" onKeyDown=${onKeyDown}>
      ${TABS.map((name) => html`<button type="button" role="tab" id=${`tab-${name}`} aria-selected=${name === tab} aria-controls="panel" tabindex=${name === tab ? 0 : -1} onClick=${() => setTab(name)}>${name}</button>`)}
    </div>
    <div class="body" role="tabpanel" id="panel" tabindex="0" aria-labelledby=${`tab-${tab}`}>
      <${Problem} error=${problem} />
      ${tab === "Models" && html`<${Models} models=${models} health=${health} onChange=${() => Promise.all([readHealth(), onModels()])} />`}
      ${tab === "Requests" && html`<${Requests} />`}
      ${tab === "Cache" && html`<${Caches} />`}
      ${tab === "Log" && html`<${Log} />`}
      ${tab === "Settings" && html`<${Settings} />`}
    </div>
  </main>`;
}

// A bar of parts, each with a share of the whole.
const Bar = ({ label, parts }) => html`<div class="meter" role="img" aria-label=${label}>
  ${parts.map(([kind, share]) => html`<span class=${kind} style=${{ width: `${Math.max(0, Math.min(100, 100 * share))}%` }}></span>`)}
</div>`;

// The limit is null until a model's process has told how much memory there is.
const isTooLarge = (size, memory) => Boolean(memory?.limit_bytes && size > memory.limit_bytes);

function Models({ models, health, onChange }) {
  const [busy, setBusy] = useState({});
  const [problem, setProblem] = useState(null);
  const states = Object.entries(health?.models ?? {}).map(([id, about]) => `${id} ${about.state}`).join();
  useEffect(() => { if (health) onChange(); }, [states]); // a request may have loaded a model
  const act = async (id, action) => {
    setBusy((before) => ({ ...before, [id]: action }));
    setProblem(null);
    try {
      await call(`/v1/models/${encodeURIComponent(id)}/${action}`, { method: "POST" });
    } catch (error) {
      setProblem(error);
    }
    setBusy((before) => ({ ...before, [id]: null }));
    onChange();
  };
  const memory = health?.memory;
  const heldBy = (about) => about?.memory?.rss ? Math.max(about.memory.mlx ?? 0, about.memory.weights ?? 0) : 0;
  const held = Object.values(health?.models ?? {}).reduce((sum, about) => sum + heldBy(about), 0);
  return html`
    <${Problem} error=${problem} />
    ${memory && html`<section class="card" aria-label="Memory">
      <h2>Memory</h2>
      <${Bar} label=${`Models hold ${bytes(held)} of ${bytes(memory.limit_bytes)}`} parts=${[["models", held / memory.total_bytes], ["others", memory.others_bytes / memory.total_bytes]]} />
      <p class="legend"><span><i class="models"></i>Models ${bytes(held)}</span><span><i class="others"></i>Other programs ${bytes(memory.others_bytes)}</span>
        <span>Models may take ${bytes(memory.budget_bytes)}${memory.budget_bytes < memory.limit_bytes ? ` now, at most ${bytes(memory.limit_bytes)}` : ""} of ${bytes(memory.total_bytes)}</span></p>
    </section>`}
    <section aria-label="Models">
      <h2>Models here</h2>
      <div class="scroll"><table class="list">
        <thead><tr><th scope="col">Model</th><th scope="col">Kind</th><th scope="col" class="right">On disk</th><th scope="col">State</th><th scope="col" class="right">Memory</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>${models.map((model) => {
          const about = health?.models?.[model.id];
          const state = busy[model.id] === "load" && !MOVING.includes(about?.state) ? "queued" : about?.state ?? model.state;
          const { pinned } = about ?? model;
          const fits = !isTooLarge(model.size_bytes, memory);
          return html`<tr key=${model.id}>
            <th scope="row">${model.id}${about?.reason ? html`<p class="note">${about.reason}</p>` : ""}</th>
            <td>${model.kind}</td>
            <td class="right">${bytes(model.size_bytes)}${fits ? "" : html`<p class="note">too large for this server</p>`}</td>
            <td><span class=${`state ${state}`}>${state}</span>${about?.percent != null && MOVING.includes(state) ? html` <progress max="100" value=${about.percent} aria-label=${`${model.id} ${state}`}></progress>` : ""}</td>
            <td class="right">${about?.memory?.weights ? html`${bytes(heldBy(about))}${memory?.limit_bytes ? html` <progress max=${memory.limit_bytes} value=${heldBy(about)} aria-label=${`${bytes(heldBy(about))} of the ${bytes(memory.limit_bytes)} that all models may take`}></progress>` : ""}` : ""}</td>
            <td class="right actions">${state === "ready" && html`<button type="button" aria-pressed=${pinned} aria-label=${`Pin ${model.id}`} onClick=${() => act(model.id, pinned ? "unpin" : "pin")}>${pinned ? "Pinned" : "Pin"}</button>`}
              ${state === "ready"
              ? html`<button type="button" disabled=${Boolean(busy[model.id])} aria-label=${`Unload ${model.id}`} onClick=${() => act(model.id, "unload")}>Unload</button>`
              : html`<button type="button" disabled=${MOVING.includes(state) || Boolean(busy[model.id]) || !fits} aria-label=${`Load ${model.id}`} onClick=${() => act(model.id, "load")}>Load</button>`}</td>
          </tr>`;
        })}</tbody>
      </table></div>
      ${!models.length && html`<p class="note">No models are here.</p>`}
    </section>
    <${Download} memory=${memory} onDone=${onChange} />`;
}

let downloads = []; // that this page has begun: they go on while another page is shown

function Download({ memory, onDone }) {
  const [id, setId] = useState("");
  const [found, setFound] = useState(null);
  const [isSearching, setSearching] = useState(false);
  const [running, setRunning] = useState(downloads);
  const [problem, setProblem] = useState(null);
  const path = (name) => `/v1/models/${encodeURIComponent(name)}/download`;
  const put = (status) => setRunning((before) => [...before.filter((each) => each.id !== status.id), status]);
  useLayoutEffect(() => { downloads = running; }, [running]);
  const begin = async (name) => {
    setProblem(null);
    try {
      put(await call(path(name), { method: "POST" }));
    } catch (error) {
      setProblem(error);
    }
  };
  const search = async (event) => {
    event.preventDefault();
    setProblem(null);
    setSearching(true);
    try {
      setFound((await call(`/v1/hub/models?query=${encodeURIComponent(id.trim())}`)).data);
    } catch (error) {
      setProblem(error);
    }
    setSearching(false);
  };
  const waiting = running.filter((each) => each.status === "downloading");
  usePolling(async () => {
    for (const each of waiting) {
      const status = await call(path(each.id)).catch((error) => ({ ...each, status: "failed", error: error.message }));
      put(status);
      if (status.status === "done") {
        setFound((before) => before?.map((model) => model.id === each.id ? { ...model, downloaded: true } : model));
        onDone();
      }
    }
  }, 1, [waiting.length]);
  const stop = (each) => call(path(each.id), { method: "DELETE" }).then(put, setProblem);
  return html`<section class="card" aria-labelledby="download">
    <h2 id="download">Download a model</h2>
    <form class="row" onSubmit=${search}>
      <label class="grow"><span class="hidden">Words, or the id of a model on the Hub</span><input type="text" placeholder="qwen3 4b, or mlx-community/Qwen3-4B-4bit" maxlength="200" spellcheck="false" value=${id} onInput=${(event) => setId(event.target.value)} /></label>
      <button type="submit" class="primary" disabled=${!id.trim() || isSearching}>${isSearching ? "Searching …" : "Search"}</button>
      <button type="button" disabled=${!id.trim()} onClick=${() => begin(id.trim())}>Download</button>
    </form>
    <${Problem} error=${problem} />
    <div role="status">${found && !found.length && html`<p class="note">The Hub has no model in MLX's format for these words.</p>`}</div>
    ${found && found.length > 0 && html`<div class="scroll"><table class="list" aria-label="Models of the Hub">
      <thead><tr><th scope="col">Model</th><th scope="col">For</th><th scope="col" class="right">Size</th><th scope="col">Fits</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
      <tbody>${found.map((each) => html`<tr key=${each.id}>
        <th scope="row">${each.id}</th><td>${each.use}</td>
        <td class="right">${each.size_bytes === null ? "unknown" : bytes(each.size_bytes)}</td><td>${each.size_bytes === null ? "" : isTooLarge(each.size_bytes, memory) ? "no" : "yes"}</td>
        <td class="right actions">${each.downloaded ? "here" : html`<button type="button" aria-label=${`Download ${each.id}`} onClick=${() => begin(each.id)}>Download</button>`}</td>
      </tr>`)}</tbody>
    </table></div>`}
    ${running.map((each) => html`<div class="download" key=${each.id}>
      <span>${each.id}</span>
      ${each.status === "downloading" && html`<progress max=${each.total_bytes || undefined} value=${each.total_bytes ? each.downloaded_bytes : undefined} aria-label=${`Download of ${each.id}`}></progress>`}
      <small role="status">${each.status === "downloading" ? `${bytes(each.downloaded_bytes)}${each.total_bytes ? ` of ${bytes(each.total_bytes)}` : ""}` : each.status}${each.error ? `: ${each.error}` : ""}
        ${isTooLarge(each.total_bytes, memory) ? " – too large for this server's memory" : ""}</small>
      ${each.status === "downloading" && html`<${IconButton} icon="close" label=${`Stop the download of ${each.id}`} onClick=${() => stop(each)} />`}
    </div>`)}
  </section>`;
}

function Requests() {
  const [requests, problem, read] = useReport("/v1/requests", 2);
  const [stats, statsProblem] = useReport(`/v1/stats?window=${WINDOW}`, 5);
  const [failed, setFailed] = useState(null);
  const cancel = (id) => call(`/v1/requests/${id}`, { method: "DELETE" }).then(read, setFailed);
  const points = stats?.window?.points ?? [];
  return html`
    <${Problem} error=${problem ?? failed} />
    <section aria-label="Live requests">
      <h2>Live requests</h2>
      <div class="scroll"><table class="list">
        <thead><tr><th scope="col">Model</th><th scope="col">API</th><th scope="col">Caller</th><th scope="col">State</th><th scope="col">Prompt</th><th scope="col" class="right">Tokens</th><th scope="col" class="right">Tokens/s</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>${(requests?.data ?? []).map((each) => html`<tr key=${each.id}>
          <th scope="row">${each.model}</th><td>${each.dialect}</td><td>${each.caller}</td>
          <td><span class=${`state ${each.state}`}>${each.state}</span></td>
          <td>${each.prompt_tokens ? html`<progress max=${each.prompt_tokens} value=${each.read_tokens ?? 0} aria-label="Tokens of the prompt that were read"></progress> <small>${each.read_tokens ?? 0} / ${each.prompt_tokens}${each.cached_tokens ? `, ${each.cached_tokens} cached` : ""}</small>` : ""}</td>
          <td class="right">${each.generated_tokens ?? ""}</td><td class="right">${each.tokens_per_second?.toFixed(1) ?? ""}</td>
          <td class="right"><button type="button" aria-label=${`Cancel the request to ${each.model}`} onClick=${() => cancel(each.id)}>Cancel</button></td>
        </tr>`)}</tbody>
      </table></div>
      ${requests && !requests.data.length && html`<p class="note">Nothing runs or waits.</p>`}
    </section>
    <${Problem} error=${statsProblem} />
    ${stats && html`<section class="plots" aria-label="The last minutes">
      <${Plot} label="Tokens per second" points=${points} field="tokens_per_second" />
      <${Plot} label="Time to the first token, ms (median)" points=${points} field="first_token_ms_p50" />
    </section>`}`;
}

// A line over time. The numbers are in its label too, for those who don't see it.
function Plot({ label, points, field }) {
  const box = useRef();
  const plot = useRef();
  const data = useMemo(() => [points.map((point) => point.time), points.map((point) => point[field] ?? null)], [points]);
  useEffect(() => {
    let gone = false;
    let watch;
    if (!document.querySelector('link[href="/console/vendor/uplot.css"]')) {
      document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/console/vendor/uplot.css" }));
    }
    import("./vendor/uplot.js").then(({ default: uPlot }) => {
      if (gone) return;
      const colour = (name) => () => resolve(name);
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
      plot.current = new uPlot({
        width: box.current.clientWidth,
        height: 180,
        legend: { show: false },
        cursor: { show: false },
        scales: { y: { range: (_, low, high) => [0, Math.max(1, high ?? 1)] } },
        axes: [{ ...axis, size: 30, values: (_, times) => times.map(clock) }, { ...axis, size: 52 }],
        series: [{}, { stroke: colour("--accent"), width: 2, points: { show: false } }],
      }, data, box.current);
      watch = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height: 180 }));
      watch.observe(box.current);
    });
    return () => {
      gone = true;
      watch?.disconnect();
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [data]);
  const values = data[1].filter((value) => value !== null);
  const newest = values.at(-1);
  return html`<figure class="card"><figcaption>${label} <strong>${newest === undefined ? "" : newest.toFixed(1)}</strong></figcaption>
    <div ref=${box} role="img" aria-label=${values.length ? `${label}: now ${newest.toFixed(1)}, at most ${Math.max(...values).toFixed(1)} in the last minutes` : `${label}: nothing yet`}></div></figure>`;
}

const clock = (time) => new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

// The canvas doesn't know CSS's light-dark(): an element resolves it.
function resolve(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function Caches() {
  const [cache, problem] = useReport("/v1/cache", 10);
  const [stats, statsProblem] = useReport("/v1/stats", 10);
  const models = (cache?.models ?? []).filter((each) => each.counters.entries !== undefined);
  const reports = models.flatMap((each) => each.reports.map((report) => ({ ...report, model: each.model }))).slice(-15).reverse();
  const sources = Object.entries(stats?.models ?? {}).flatMap(([model, about]) => Object.entries(about.speculation ?? {}).map(([source, counts]) => ({ model, source, ...counts })));
  return html`
    <${Problem} error=${problem ?? statsProblem} />
    <section aria-label="Prompt caches"><h2>Prompt caches</h2>
      <div class="scroll"><table class="list">
        <thead><tr><th scope="col">Model</th><th scope="col" class="right">Hits</th><th scope="col" class="right">Misses</th><th scope="col" class="right">Prompts</th><th scope="col">Memory</th><th scope="col" class="right">On disk</th></tr></thead>
        <tbody>${models.map(({ model, counters }) => html`<tr key=${model}><th scope="row">${model}</th><td class="right">${counters.hits}</td><td class="right">${counters.misses}</td><td class="right">${counters.entries}</td>
          <td><progress max=${counters.budget_bytes} value=${counters.bytes} aria-label=${`Memory of ${model}'s cached prompts`}></progress> <small>${bytes(counters.bytes)} of ${bytes(counters.budget_bytes)}</small></td>
          <td class="right">${counters.disk_bytes ? bytes(counters.disk_bytes) : ""}</td></tr>`)}</tbody>
      </table></div>
      ${cache && !models.length && html`<p class="note">No model that caches prompts is loaded.</p>`}
    </section>
    <section aria-label="Last prompts"><h2>Last prompts</h2>
      <ul class="reports">${reports.map((report) => html`<li key=${report.request_id}>
        <${Bar} label=${`${report.cached_tokens} of ${report.prompt_tokens} tokens were cached`} parts=${[["models", report.cached_tokens / (report.prompt_tokens || 1)]]} />
        <span>${report.model}: ${report.summary}</span></li>`)}</ul>
      ${cache && !reports.length && html`<p class="note">No prompts yet.</p>`}
    </section>
    <section aria-label="Speculation"><h2>Speculation</h2>
      ${sources.length ? html`<div class="scroll"><table class="list">
        <thead><tr><th scope="col">Model</th><th scope="col">Guesses from</th><th scope="col" class="right">Verified</th><th scope="col" class="right">Right</th><th scope="col" class="right">Saved</th></tr></thead>
        <tbody>${sources.map((each) => html`<tr><th scope="row">${each.model}</th><td>${each.source}</td><td class="right">${each.proposed}</td><td class="right">${each.accepted}</td><td class="right">${each.saved_seconds?.toFixed(2)} s</td></tr>`)}</tbody>
      </table></div>` : html`<p class="note">No tokens were guessed yet.</p>`}
    </section>`;
}

function Log() {
  const [level, setLevel] = useState("info");
  const [lines, setLines] = useState([]);
  const [problem, setProblem] = useState(null);
  const newest = useRef(null);
  const box = useRef();
  usePolling(async () => {
    try {
      const after = newest.current === null ? "" : `&after=${newest.current}`;
      const page = await call(`/v1/logs?limit=500&level=${level}${after}`);
      setProblem(null);
      if (page.data.length) {
        newest.current = page.data.at(-1).id;
        setLines((before) => [...before, ...page.data].slice(-1000));
      }
    } catch (error) {
      setProblem(error);
    }
  }, 3, [level]);
  useEffect(() => { box.current.scrollTop = box.current.scrollHeight; }, [lines]);
  const choose = (event) => {
    newest.current = null;
    setLines([]);
    setLevel(event.target.value);
  };
  return html`
    <div class="row"><label>Least level<select value=${level} onChange=${choose}>${["info", "warning", "error"].map((each) => html`<option value=${each}>${each}</option>`)}</select></label></div>
    <${Problem} error=${problem} />
    <pre class="log" ref=${box} tabindex="0" role="log" aria-live="off" aria-label="Log">${lines.map((line) => html`<span key=${line.id} class=${line.level}>${new Date(line.time * 1000).toLocaleTimeString()} ${line.level.toUpperCase().padEnd(8)} ${line.text}</span>`)}</pre>`;
}

function Settings() {
  const [settings, problem] = useReport("/v1/settings", 3600);
  const [words, setWords] = useState("");
  const shown = (settings?.data ?? []).filter((each) => each.name.includes(words.toLowerCase().replaceAll(" ", "_")));
  shown.sort((a, b) => (a.source === "default") - (b.source === "default")); // the chosen ones first
  return html`
    <label class="search">Find a setting<input type="search" value=${words} onInput=${(event) => setWords(event.target.value)} /></label>
    <${Problem} error=${problem} />
    <div class="scroll"><table class="list">
      <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
      <tbody>${shown.map((each) => html`<tr key=${each.name} class=${each.source === "default" ? "" : "changed"}><th scope="row"><code>${each.name}</code></th><td><code>${typeof each.value === "string" ? each.value : JSON.stringify(each.value)}</code></td><td>${each.source}</td></tr>`)}</tbody>
    </table></div>
    <p class="note">Settings are fixed when the server starts.</p>`;
}
