"use strict";
// Texts are data. Every node is made with createElement and textContent: no HTML is ever parsed,
// no link can be followed, no image is fetched.
const LONG = 6000;

function el(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function inline(parent, text) {
  const pattern = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\n]+)\*/g;
  let last = 0;
  for (const found of text.matchAll(pattern)) {
    parent.append(text.slice(last, found.index));
    const name = found[1] !== undefined ? "code" : found[2] !== undefined ? "strong" : "em";
    parent.append(el(name, found[1] ?? found[2] ?? found[3]));
    last = found.index + found[0].length;
  }
  parent.append(text.slice(last));
}

function markdown(text) {
  const out = document.createDocumentFragment();
  const lines = text.split("\n");
  let paragraph = [], list = null;
  const flush = () => {
    if (paragraph.length) {
      const p = el("p"); p.dir = "auto";
      paragraph.forEach((line, i) => { if (i) p.append(el("br")); inline(p, line); });
      out.append(p);
    }
    paragraph = []; list = null;
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const fence = /^\s*(```|~~~)/.exec(line);
    if (fence) {
      flush();
      const code = [];
      for (i++; i < lines.length && !lines[i].trimStart().startsWith(fence[1]); i++) code.push(lines[i]);
      const pre = el("pre"); pre.dir = "ltr"; pre.tabIndex = 0; pre.append(el("code", code.join("\n")));
      out.append(pre);
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    const item = /^\s*(?:[-*+]|(\d{1,4})[.)])\s+(.*)$/.exec(line);
    const quote = /^\s*>\s?(.*)$/.exec(line);
    if (heading) {
      flush();
      const h = el("p", undefined, "heading"); h.dir = "auto"; inline(h, heading[2]); out.append(h);
    } else if (item) {
      const kind = item[1] === undefined ? "UL" : "OL";
      if (!list || list.tagName !== kind) {
        flush();
        list = el(kind); list.dir = "auto";
        if (kind === "OL") list.start = Number(item[1]);
        out.append(list);
      }
      const li = el("li"); li.dir = "auto"; inline(li, item[2]); list.append(li);
    } else if (quote) {
      flush();
      const q = el("blockquote"); q.dir = "auto"; inline(q, quote[1]); out.append(q);
    } else if (!line.trim()) flush();
    else { list = null; paragraph.push(line); }
  }
  flush();
  return out;
}

function textNode(text, asMarkdown) {
  if (asMarkdown) return markdown(text);
  const made = el("div", text, "plain"); made.dir = "auto";
  return made;
}

function showTurns(parent, turns, asMarkdown) {
  parent.replaceChildren();
  for (const turn of turns) {
    const box = el("div", undefined, turn.role ? "turn" : "");
    if (turn.role) box.append(el("p", turn.role, "role"));
    const long = turn.text.length > LONG;
    const body = el("div");
    body.append(textNode(long ? turn.text.slice(0, LONG) : turn.text, asMarkdown));
    box.append(body);
    if (long) {
      const more = el("button", `Show all ${turn.text.length.toLocaleString("en")} characters`);
      more.type = "button";
      more.addEventListener("click", () => {
        body.replaceChildren(textNode(turn.text, asMarkdown)); more.remove();
      });
      box.append(more);
    }
    parent.append(box);
  }
}
