// The frame around the pages: navigation, the list of conversations, the key, the palette.

import { html, render, useCallback, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { call, events, getKey, setKey } from "./api.js";
import { ChatPage } from "./chat.js";
import { Conversation } from "./conversation.js";
import { Palette } from "./palette.js";
import { Confirm, Dialog, Icon, IconButton, Notice } from "./ui.js";

const MODEL = "orchard.model";
const THEME = "orchard.theme";
const THEMES = ["system", "light", "dark"];
const PAGES = [["", "Chat", "chat"], ["server", "Server", "server"], ["connect", "Connect", "plug"]];

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

function readRoute() {
  const [page = "", id, leaf] = location.hash.replace(/^#\/?/, "").split("/");
  if (![id ?? "", leaf ?? ""].every((each) => /^\w*$/.test(each))) return { page: "" }; // no ids of this server
  return page === "c" ? { page: "", id, leaf } : { page: PAGES.some(([name]) => name === page) ? page : "" };
}

const goTo = (path) => { location.hash = `#/${path}`; };

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
}
applyTheme(localStorage.getItem(THEME) ?? "system");

// The other pages are loaded when they are opened.
function LazyPage({ load, name, ...rest }) {
  const [page, setPage] = useState(null);
  useEffect(() => { load().then((loaded) => setPage(() => loaded[name])); }, []);
  return page ? html`<${page} ...${rest} />` : html`<main aria-busy="true"></main>`;
}

function App() {
  const [route, setRoute] = useState(readRoute);
  const [known, setKnown] = useState(null); // null until the server has told its models
  const models = known ?? [];
  const [wanted, setWanted] = useState(() => localStorage.getItem(MODEL));
  const [list, setList] = useState({ data: [], has_more: false });
  const [query, setQuery] = useState("");
  const [asksForKey, setAsksForKey] = useState(false);
  const [session, setSession] = useState(0); // grows with each key
  const [palette, setPalette] = useState(false);
  const [menu, setMenu] = useState(false);
  const [dialog, setDialog] = useState(null);
  const [theme, setTheme] = useState(localStorage.getItem(THEME) ?? "system");
  const [problem, setProblem] = useState("");
  const [forgets, setForgets] = useState(false); // conversations are lost when the server stops

  useEffect(() => {
    const onHash = () => {
      setRoute(readRoute());
      setMenu(false);
    };
    const onKey = (event) => {
      const command = event.ctrlKey || event.metaKey;
      if (command && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setPalette((open) => !open);
      } else if (command && event.shiftKey && event.key.toLowerCase() === "o") {
        event.preventDefault();
        goTo("");
      }
    };
    const onNeed = () => setAsksForKey(true);
    addEventListener("hashchange", onHash);
    addEventListener("keydown", onKey);
    events.addEventListener("need-key", onNeed);
    return () => {
      removeEventListener("hashchange", onHash);
      removeEventListener("keydown", onKey);
      events.removeEventListener("need-key", onNeed);
    };
  }, []);

  const refreshModels = useCallback(async () => {
    const found = await call("/v1/models").catch((error) => {
      if (error.status !== 401) setProblem(error.message);
      return { data: [] };
    });
    setKnown(found.data.filter((each) => each.id === each.root));
  }, []);
  const refreshList = useCallback(async (words = "") => {
    const found = await call(`/v1/conversations?limit=50&query=${encodeURIComponent(words)}`).catch(() => null);
    if (found) setList(found);
  }, []);
  const more = async () => {
    const next = await call(`/v1/conversations?limit=50&query=${encodeURIComponent(query)}&after=${list.last_id}`);
    setList({ ...next, data: [...list.data, ...next.data] });
  };

  useEffect(() => {
    refreshModels();
    call("/health").then(({ responses }) => setForgets(responses === "memory"), () => {});
    const onShow = () => !document.hidden && refreshModels();
    document.addEventListener("visibilitychange", onShow);
    return () => document.removeEventListener("visibilitychange", onShow);
  }, [session]);
  useEffect(() => {
    const timer = setTimeout(() => refreshList(query), query ? 200 : 0);
    return () => clearTimeout(timer);
  }, [session, query]);

  const model = useMemo(() => {
    const able = models.filter((each) => each.architecture.output_modalities.includes("text"));
    return able.find((each) => each.id === wanted) ?? able.find((each) => each.loaded) ?? able[0];
  }, [known, wanted]);
  const choose = (id) => {
    setWanted(id);
    localStorage.setItem(MODEL, id);
  };
  const chooseTheme = (name) => {
    localStorage.setItem(THEME, name);
    applyTheme(name);
    setTheme(name);
  };
  const open = (id, leaf) => goTo(leaf ? `c/${id}/${leaf}` : `c/${id}`);
  const rename = (each) => setDialog({ kind: "rename", id: each.id, title: each.metadata?.title ?? "" });
  const remove = (each) => setDialog({ kind: "delete", id: each.id, title: each.metadata?.title ?? "" });
  const doRename = async (id, title) => {
    setDialog(null);
    try {
      await Conversation.rename(id, title);
      refreshList(query);
    } catch (error) {
      setProblem(error.message);
    }
  };
  const doRemove = async (id) => {
    setDialog(null);
    try {
      await call(`/v1/conversations/${id}`, { method: "DELETE" });
      Conversation.forget(id);
      if (route.id === id) goTo("");
      refreshList(query);
    } catch (error) {
      setProblem(error.message);
    }
  };
  const enterKey = (key) => {
    setKey(key);
    setAsksForKey(false);
    Conversation.forgetAll();
    setSession((number) => number + 1);
  };

  const current = list.data.find((each) => each.id === route.id) ?? (route.id ? { id: route.id } : null);
  const commands = useMemo(() => [
    { label: "New chat", icon: "plus", hint: isMac ? "⇧⌘O" : "Ctrl Shift O", run: () => goTo("") },
    ...PAGES.slice(1).map(([path, label, icon]) => ({ label, icon, hint: "Page", run: () => goTo(path) })),
    ...(current ? [
      { label: "Rename this conversation", icon: "edit", hint: "Conversation", run: () => rename(current) },
      { label: "Export this conversation as Markdown", icon: "download", hint: "Conversation", run: () => exportAs("md") },
      { label: "Export this conversation as JSON", icon: "download", hint: "Conversation", run: () => exportAs("json") },
      { label: "Delete this conversation", icon: "trash", hint: "Conversation", run: () => remove(current) },
    ] : []),
    ...models.filter((each) => each.architecture.output_modalities.includes("text")).map((each) => ({ label: `Use ${each.id}`, icon: "sliders", hint: "Model", run: () => choose(each.id) })),
    ...THEMES.map((name) => ({ label: `Colours: ${name}`, icon: "theme", hint: "Appearance", run: () => chooseTheme(name) })),
    { label: getKey() ? "Use another API key" : "Enter an API key", icon: "plug", hint: "Access", run: () => setAsksForKey(true) },
  ], [known, current?.id, session]);

  const showMenu = html`<${IconButton} icon="menu" label="Menu" class="icon-button menu-button" aria-expanded=${menu} onClick=${() => setMenu(!menu)} />`;
  const shared = { models, model, ready: known !== null, showMenu, onModels: refreshModels };
  return html`
    <a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.querySelector("main textarea, main button, main a")?.focus(); }}>Skip to the content</a>
    ${menu && html`<div class="shade" onClick=${() => setMenu(false)}></div>`}
    <nav class=${menu ? "side open" : "side"} aria-label="Orchard">
      <div class="brand"><img src="/console/icon.svg" alt="" width="22" height="22" /> Orchard</div>
      <ul class="pages">
        ${PAGES.map(([path, label, icon]) => html`<li><a href=${`#/${path}`} aria-current=${route.page === path ? "page" : undefined} onClick=${() => setMenu(false)}><${Icon} name=${icon} /> ${label}</a></li>`)}
      </ul>
      <button type="button" class="new" onClick=${() => goTo("")}><${Icon} name="plus" /> New chat</button>
      <label class="search"><${Icon} name="search" /><span class="hidden">Search conversations</span>
        <input type="search" placeholder="Search conversations" value=${query} onInput=${(event) => setQuery(event.target.value)} /></label>
      <ul class="conversations" aria-label="Conversations">
        ${list.data.map((each) => html`<li key=${each.id} class=${each.id === route.id ? "current" : ""}>
          <a href=${`#/c/${each.id}`} aria-current=${each.id === route.id ? "true" : undefined}>${each.metadata?.title || "Conversation"}</a>
          <${IconButton} icon="edit" label=${`Rename ${each.metadata?.title ?? ""}`} onClick=${() => rename(each)} />
          <${IconButton} icon="trash" label=${`Delete ${each.metadata?.title ?? ""}`} onClick=${() => remove(each)} />
        </li>`)}
        ${list.has_more && html`<li><button type="button" onClick=${more}>More</button></li>`}
        ${!list.data.length && html`<li class="note">${query ? "Nothing found." : "No conversations yet."}</li>`}
      </ul>
      ${forgets && html`<p class="note">Conversations are in memory: they are lost when the server stops.</p>`}
      <div class="foot">
        <button type="button" class="quiet" onClick=${() => setPalette(true)}><${Icon} name="search" /> Find <kbd>${isMac ? "⌘" : "Ctrl"} K</kbd></button>
        <${IconButton} icon="theme" label=${`Colours: ${theme}`} onClick=${() => chooseTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])} />
      </div>
    </nav>
    <div class="page" id="content" key=${session}>
      ${problem && html`<${Notice} kind="error" onClose=${() => setProblem("")}>${problem}<//>`}
      ${route.page === "" && html`<${ChatPage} ...${shared} id=${route.id} leaf=${route.leaf} onModel=${choose} onOpen=${open} onChange=${() => refreshList(query)} />`}
      ${route.page === "server" && html`<${LazyPage} key="server" load=${() => import("./server.js")} name="ServerPage" ...${shared} />`}
      ${route.page === "connect" && html`<${LazyPage} key="connect" load=${() => import("./connect.js")} name="ConnectPage" ...${shared} />`}
    </div>
    ${palette && html`<${Palette} commands=${commands} onClose=${() => setPalette(false)} onOpen=${open} />`}
    ${asksForKey && html`<${KeyDialog} onDone=${enterKey} onClose=${() => setAsksForKey(false)} />`}
    ${dialog?.kind === "rename" && html`<${RenameDialog} title=${dialog.title} onDone=${(title) => doRename(dialog.id, title)} onClose=${() => setDialog(null)} />`}
    ${dialog?.kind === "delete" && html`<${Confirm} title="Delete this conversation?" text=${`“${dialog.title || "Conversation"}” and all its branches are deleted from the server.`} action="Delete"
      onDone=${(sure) => (sure ? doRemove(dialog.id) : setDialog(null))} />`}`;
}

const exportAs = (kind) => document.dispatchEvent(new CustomEvent("orchard-export", { detail: kind }));

function KeyDialog({ onDone, onClose }) {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    if (field.current.value.trim()) onDone(field.current.value.trim());
  };
  return html`<${Dialog} label="API key" onClose=${onClose}>
    <form onSubmit=${submit}>
      <h2>This server asks for a key</h2>
      <p>Enter one of its API keys. It stays in this tab until you close it.</p>
      <label>API key<input type="password" autocomplete="off" autofocus pattern="\\s*[!-~]+\\s*" title="Letters, digits and signs of ASCII, without spaces" ref=${field} /></label>
      <div class="buttons"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="primary">Use this key</button></div>
    </form>
  <//>`;
}

function RenameDialog({ title, onDone, onClose }) {
  const [text, setText] = useState(title);
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) onDone(text.trim());
  };
  return html`<${Dialog} label="Rename the conversation" onClose=${onClose}>
    <form onSubmit=${submit}>
      <h2>Rename the conversation</h2>
      <label>Name<input type="text" maxlength="200" autofocus value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <div class="buttons"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="primary" disabled=${!text.trim()}>Rename</button></div>
    </form>
  <//>`;
}

render(html`<${App} />`, document.getElementById("app"));
