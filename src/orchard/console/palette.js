// The palette that Ctrl+K opens: commands, models and conversations by a few letters.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { call } from "./api.js";
import { Dialog, Icon } from "./ui.js";

export function Palette({ commands, onClose, onOpen }) {
  const [text, setText] = useState("");
  const [place, setPlace] = useState(0);
  const [found, setFound] = useState([]);
  useEffect(() => {
    let current = true;
    const timer = setTimeout(async () => {
      const page = await call(`/v1/conversations?limit=8&query=${encodeURIComponent(text.trim())}`).catch(() => ({ data: [] }));
      if (current) setFound(page.data);
    }, text ? 150 : 0);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text]);
  const rows = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = commands.filter((each) => words.every((word) => each.label.toLowerCase().includes(word)));
    const conversations = found.map((each) => ({ label: each.metadata?.title || "Conversation", icon: "chat", hint: "Conversation", run: () => onOpen(each.id) }));
    return [...fitting, ...conversations];
  }, [text, commands, found]);
  const chosen = Math.min(place, rows.length - 1);
  const run = (row) => {
    onClose();
    row?.run();
  };
  const onKeyDown = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setPlace((chosen + step + rows.length) % Math.max(1, rows.length));
      document.getElementById(`palette-${(chosen + step + rows.length) % Math.max(1, rows.length)}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(rows[chosen]);
    }
  };
  return html`<${Dialog} label="Find a command, a model or a conversation" className="palette" onClose=${onClose}>
    <input type="text" role="combobox" aria-expanded="true" aria-controls="palette-rows" aria-activedescendant=${rows.length ? `palette-${chosen}` : undefined}
      aria-label="Find" placeholder="Find a command, a model or a conversation" autofocus value=${text} onKeyDown=${onKeyDown}
      onInput=${(event) => { setText(event.target.value); setPlace(0); }} />
    <ul id="palette-rows" role="listbox" aria-label="Found">
      ${rows.map((row, index) => html`<li id=${`palette-${index}`} role="option" aria-selected=${index === chosen} onClick=${() => run(row)} onMouseMove=${() => setPlace(index)}>
        <${Icon} name=${row.icon} /><span>${row.label}</span><small>${row.hint}</small>
      </li>`)}
      ${!rows.length && html`<li role="option" aria-selected="false" aria-disabled="true">Nothing found</li>`}
    </ul>
  <//>`;
}
