// Small parts that all pages share.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";

const PATHS = {
  attach: "M21 11.500l-8.600 8.600a5.500 5.500 0 0 1-7.800-7.800l8.600-8.600a3.700 3.700 0 0 1 5.200 5.200l-8.600 8.600a1.800 1.800 0 0 1-2.600-2.600l7.900-7.900",
  chat: "M21 12a8 8 0 0 1-8 8H4l2-3.500A8 8 0 1 1 21 12z",
  check: "M4 12.500l5 5L20 6.500",
  close: "M5 5l14 14M19 5L5 19",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  down: "M6 9l6 6 6-6",
  download: "M12 4v11m-5-5l5 5 5-5M4 20h16",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  left: "M15 5l-7 7 7 7",
  menu: "M4 6h16M4 12h16M4 18h16",
  mic: "M12 3a3 3 0 0 0-3 3v5a3 3 0 0 0 6 0V6a3 3 0 0 0-3-3zM5 11a7 7 0 0 0 14 0M12 18v3",
  plug: "M9 3v5m6-5v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  plus: "M12 5v14M5 12h14",
  retry: "M20 11a8 8 0 1 0-2.300 5.700M20 5v6h-6",
  right: "M9 5l7 7-7 7",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l5 5",
  send: "M12 20V5m-6 6l6-6 6 6",
  server: "M4 4h16v6H4zM4 14h16v6H4zM7.500 7h.01M7.500 17h.01",
  sliders: "M4 7h10m4 0h2M4 17h2m4 0h10M14 4.500v5M10 14.500v5",
  stop: "M7 7h10v10H7z",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  tool: "M14 6a5 5 0 0 1 6-1l-3 3 2 2 3-3a5 5 0 0 1-7 6l-7 7-3-3 7-7",
};

export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

export const IconButton = ({ icon, label, class: className = "icon-button", ...rest }) => html`
  <button type="button" class=${className} aria-label=${label} title=${label} ...${rest}><${Icon} name=${icon} /></button>`;

export function CopyButton({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(typeof text === "function" ? text() : text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<${IconButton} icon=${done ? "check" : "copy"} label=${done ? "Copied" : label} onClick=${copy} />`;
}

// Browsers have no clipboard for pages of other machines without TLS: a selected field is copied there.
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

// A modal dialog. Escape and a click beside it close it.
export function Dialog({ label, className = "", onClose, children }) {
  const ref = useRef();
  useLayoutEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => before?.focus?.();
  }, []);
  const onClick = (event) => event.target === ref.current && onClose();
  const onCancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${ref} class=${className} aria-label=${label} onClick=${onClick} onCancel=${onCancel}>${children}</dialog>`;
}

export function Confirm({ title, text, action, onDone }) {
  return html`<${Dialog} label=${title} onClose=${() => onDone(false)}>
    <h2>${title}</h2>
    <p>${text}</p>
    <div class="buttons">
      <button type="button" onClick=${() => onDone(false)}>Cancel</button>
      <button type="button" class="danger" onClick=${() => onDone(true)}>${action}</button>
    </div>
  <//>`;
}

export const Notice = ({ kind = "info", children, onClose }) => html`
  <div class=${`notice ${kind}`} role=${kind === "error" ? "alert" : "status"}>
    <div>${children}</div>
    ${onClose && html`<${IconButton} icon="close" label="Dismiss" onClick=${onClose} />`}
  </div>`;

export function bytes(count) {
  if (count == null) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3));
  const value = count / 1000 ** power;
  return `${value < 10 && power ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

export function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Calls `work` now and every `seconds`, but not while the page is hidden.
export function usePolling(work, seconds, inputs = []) {
  useEffect(() => {
    let timer;
    let turns = 0;
    const turn = async () => {
      const own = ++turns;
      clearTimeout(timer);
      if (document.hidden) return;
      await work();
      if (own === turns) timer = setTimeout(turn, seconds * 1000);
    };
    turn();
    document.addEventListener("visibilitychange", turn);
    return () => {
      turns++;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", turn);
    };
  }, inputs);
}
