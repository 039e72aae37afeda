// Markdown of models as elements. No text ever becomes HTML: raw HTML is shown as text, links lead only to web and mail
// addresses, and pictures, which a server elsewhere would see being fetched, are shown as links.

import { h, html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { lexer } from "./vendor/marked.js";
import { CopyButton } from "./ui.js";

// Beyond these, a text is shown as it is: to read it again with each piece of an answer would hold up the page.
const MOST_READ = 100_000; // characters
const MOST_MILLISECONDS = 300;
const MOST_COLOURED = 50_000; // characters
// Blocks in 50 others: to read them takes seconds, or more stack than there is. The text is shown as it is.
const DEEP = /^[ \t]{0,3}(?:>[ \t]*|(?:[-*+]|\d+[.)])[ \t]+){50}|^[ \t]{150}[-*+\d]/m;
const SAFE = /^(https?:\/\/|mailto:)/i;
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&#39;": "'" };
const unescape = (text) => text.replace(/&(?:amp|lt|gt|quot|#x27|#39);/g, (found) => ENTITIES[found]);

export function Markdown({ text, link = outside }) {
  // The blocks before the last one don't change while a text grows: the same elements are not compared again.
  const blocks = useRef(new Map());
  const slow = useRef(false);
  const elements = useMemo(() => {
    if (slow.current || text.length > MOST_READ || DEEP.test(text)) return html`<p class="plain">${text}</p>`;
    const begin = performance.now();
    try {
      const tokens = lexer(text);
      slow.current = performance.now() - begin > MOST_MILLISECONDS;
      const current = new Map(tokens.map((token, index) => {
        const name = `${index} ${token.raw}`;
        return [name, blocks.current.get(name) ?? block(token, link)];
      }));
      blocks.current = current;
      return [...current.values()];
    } catch { // nested too deeply in another way
      slow.current = true;
      return html`<p class="plain">${text}</p>`;
    }
  }, [text, link]);
  return html`<div class="markdown">${elements}</div>`;
}

function outside(href, children) {
  if (!SAFE.test(href)) return children;
  return html`<a href=${href} target="_blank" rel="noopener noreferrer">${children}</a>`;
}

function block(token, link) {
  const inside = (tokens) => tokens.map((each) => block(each, link));
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return h(`h${Math.min(6, token.depth + 2)}`, null, inside(token.tokens));
    case "paragraph":
      return html`<p>${inside(token.tokens)}</p>`;
    case "text":
      return token.tokens ? inside(token.tokens) : unescape(token.text);
    case "escape":
      return unescape(token.text);
    case "code":
      return html`<${Code} text=${token.text} language=${(token.lang || "").match(/^\S*/)[0]} />`;
    case "blockquote":
      return html`<blockquote>${inside(token.tokens)}</blockquote>`;
    case "hr":
      return html`<hr />`;
    case "list":
      return h(token.ordered ? "ol" : "ul", token.ordered && token.start !== 1 ? { start: token.start } : null,
        token.items.map((item) => html`<li>${inside(item.tokens)}</li>`));
    case "table":
      return html`<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>
        <thead><tr>${token.header.map((cell) => html`<th class=${cell.align || ""}>${inside(cell.tokens)}</th>`)}</tr></thead>
        <tbody>${token.rows.map((row) => html`<tr>${row.map((cell) => html`<td class=${cell.align || ""}>${inside(cell.tokens)}</td>`)}</tr>`)}</tbody>
      </table></div>`;
    case "strong":
      return html`<strong>${inside(token.tokens)}</strong>`;
    case "em":
      return html`<em>${inside(token.tokens)}</em>`;
    case "del":
      return html`<del>${inside(token.tokens)}</del>`;
    case "codespan":
      return html`<code>${token.text}</code>`;
    case "br":
      return html`<br />`;
    case "link":
      return link(token.href, inside(token.tokens));
    case "image":
      return link(token.href, [token.text || token.href]);
    case "checkbox":
      return html`<input type="checkbox" disabled checked=${token.checked} aria-label="done" />`;
    default: // raw HTML, and what this doesn't know
      return token.raw;
  }
}

let highlighter;

export function Code({ text, language }) {
  const [colours, setColours] = useState(null);
  useEffect(() => {
    if (!language || text.length > MOST_COLOURED) return undefined;
    let current = true;
    // A growing block is coloured when it has stopped growing.
    const timer = setTimeout(async () => {
      highlighter ||= import("./vendor/highlight.js");
      const { default: hljs } = await highlighter;
      if (!current || !hljs.getLanguage(language)) return;
      setColours({ text, spans: spans(hljs.highlight(text, { language, ignoreIllegals: true }).value) });
    }, 60);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text, language]);
  return html`<figure class="code">
    <figcaption><span>${language}</span><${CopyButton} text=${text} label="Copy code" /></figcaption>
    <pre tabindex="0"><code>${colours?.text === text ? colours.spans : text}</code></pre>
  </figure>`;
}

// The highlighter writes HTML of nothing but nested spans: read it as such, and make elements.
function spans(markup) {
  const stack = [[]];
  const classes = [];
  for (const piece of markup.split(/(<span class="[^"]*">|<\/span>)/)) {
    if (piece.startsWith('<span class="')) {
      classes.push(piece.slice(13, -2));
      stack.push([]);
    } else if (piece === "</span>") {
      const children = stack.pop();
      stack.at(-1).push(h("span", { class: classes.pop() }, children));
    } else if (piece) {
      stack.at(-1).push(unescape(piece));
    }
  }
  return stack[0];
}
