"use strict";
const rater = decodeURIComponent(location.pathname.slice(3));
const at = (id) => document.getElementById(id);
const newKey = () => crypto.randomUUID ? crypto.randomUUID()
  : Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
const tab = sessionStorage.getItem("tab") || newKey();
sessionStorage.setItem("tab", tab);
const state = { study: null, item: null, progress: null, since: 0, busy: false, position: null, asMarkdown: true };

async function call(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  // The same body carries the same key: sending it again after a lost reply changes nothing.
  for (let attempt = 0; ; attempt++) {
    let reply;
    try { reply = await fetch(path, options); }
    catch (error) {
      problem("No connection to the server: trying again. Your answer is not lost.");
      await new Promise((done) => setTimeout(done, Math.min(500 * 2 ** attempt, 5000)));
      continue;
    }
    problem("");
    const kind = reply.headers.get("content-type") || "";
    const found = kind.includes("json") ? await reply.json() : { problem: await reply.text() };
    if (reply.ok) return found;
    const failed = new Error([found.problem, found.hint].filter(Boolean).join(". "));
    failed.status = reply.status;
    throw failed;
  }
}
const problem = (text) => { at("problem").textContent = text; };
const query = (extra) => new URLSearchParams({ rater, tab, ...extra });

async function guarded(work) {
  if (state.busy) return;
  state.busy = true;
  document.body.setAttribute("aria-busy", "true");
  try { await work(); }
  catch (error) {
    if (error.status === 409) { await next(); problem(error.message + ". Here is the next one."); }
    else problem(error.message);
  } finally { state.busy = false; document.body.removeAttribute("aria-busy"); }
}

async function next() { state.position = null; show(await call("/api/next?" + query({}))); }

async function answer(word) {
  if (!state.item) return;
  const seconds = (performance.now() - state.since) / 1000;
  await call("/api/answer", { rater, item: state.item.id, revision: state.item.revision, word,
    key: newKey(), note: at("note").value, seconds });
  await next();
}

async function undo() {
  const found = await call("/api/undo", { rater, key: newKey() });
  if (found.item) { state.position = null; show(found); } else problem("There is nothing to undo.");
}

async function back(step) {
  const items = state.progress.items;
  const from = state.position === null ? items.length : state.position;
  const to = from + step;
  if (to < 0) return;
  if (to >= items.length) { await next(); return; }
  const found = await call("/api/item?" + query({ item: items[to] }));
  state.position = to;
  show(found);
}

function show(found) {
  state.item = found.item; state.progress = found.progress; state.since = performance.now();
  const { done, skipped, pace, goal } = found.progress;
  at("progress").textContent = `${done} labelled by you` + (skipped ? `, ${skipped} of them skipped` : "") +
    ` · goal ${goal} in all` + (pace ? ` · ${Math.round(pace)} s each` : "");
  at("filled").style.width = `${Math.min(100, 100 * done / goal)}%`;
  const item = found.item;
  at("finished").hidden = Boolean(item);
  at("answers").hidden = !item;
  at("prompt").parentElement.hidden = !item || item.prompt.every((t) => !t.text);
  if (!item) {
    at("responses").replaceChildren();
    at("finished").textContent = "Nothing is left for you to label. Thank you.";
    return;
  }
  draw();
  at("note").value = item.note;
  at("current").textContent = item.answer === null ? "" : `Your answer so far: ${item.answer}`;
  for (const button of at("choices").querySelectorAll("button"))
    button.setAttribute("aria-pressed", String(button.dataset.word === item.answer));
  const number = document.getElementById("number");
  if (number) number.value = item.answer === null || item.answer === "skip" ? "" : item.answer;
  window.scrollTo(0, 0);
  at("main").focus({ preventScroll: true });
}

function draw() {
  const item = state.item;
  if (!item) return;
  showTurns(at("prompt"), item.prompt, state.asMarkdown);
  const sides = item.responses.map((turns, i) => {
    const section = el("section"), title = el("h2", item.responses.length > 1 ? `Response ${"AB"[i]}` : "Response");
    title.id = `response-${i}`; section.setAttribute("aria-labelledby", title.id);
    const body = el("div", undefined, "text");
    showTurns(body, turns, state.asMarkdown);
    section.append(title, body);
    return section;
  });
  at("responses").className = item.responses.length > 1 ? "pair" : "";
  at("responses").replaceChildren(...sides);
}

const KEYS = { A: "a", B: "b", tie: "t", "both bad": "x" };
function keyOf(word, index, words) {
  if (state.study.pairs) return KEYS[word];
  if (words.length === 2) return index ? "y" : "n";
  if (words.every((w) => /^-?\d+$/.test(w))) return word.length === 1 ? word : word === "10" && !words.includes("0") ? "0" : "";
  return index < 9 ? String(index + 1) : "";
}

function makeChoices() {
  const { kind, words, low, high } = state.study.scale;
  const box = at("choices");
  if (kind === "number") {
    const form = el("form"), input = el("input"), label = el("label", `From ${low} to ${high}`);
    input.id = "number"; input.type = "number"; input.min = low; input.max = high; input.step = "any"; input.required = true;
    input.inputMode = "decimal"; label.htmlFor = "number";
    form.append(label, input, el("button", "Save", "primary"));
    form.addEventListener("submit", (event) => { event.preventDefault(); guarded(() => answer(input.value)); });
    box.append(form);
    return;
  }
  words.forEach((word, i) => {
    const button = el("button"), key = keyOf(word, i, words);
    button.type = "button"; button.dataset.word = word; button.dataset.key = key;
    if (key && key !== word) button.append(el("kbd", key), " ");
    button.append(word);
    button.setAttribute("aria-pressed", "false");
    if (key) button.setAttribute("aria-keyshortcuts", key);
    button.addEventListener("click", () => guarded(() => answer(word)));
    box.append(button);
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLInputElement;
  if (typing) {
    if (event.key === "Escape" || (event.key === "Enter" && event.target.id === "note")) { event.preventDefault(); at("main").focus(); }
    return;
  }
  const key = event.key.toLowerCase();
  const choice = [...at("choices").querySelectorAll("button")].find((b) => b.dataset.key === key);
  const number = document.getElementById("number");
  const note = () => at("note").focus();
  const commands = { s: () => at("skip").click(), u: () => at("undo").click(), arrowleft: () => at("back").click(),
    arrowright: () => guarded(() => back(1)), m: () => at("markdown").click() };
  // If n answers "no", the comma also opens the note.
  if (choice) { event.preventDefault(); choice.click(); }
  else if (number && /^[\d.]$/.test(event.key)) number.focus();
  else if (key === "n" || key === ",") { event.preventDefault(); note(); }
  else if (commands[key]) { event.preventDefault(); commands[key](); }
});
at("skip").addEventListener("click", () => guarded(() => answer(null)));
at("undo").addEventListener("click", () => guarded(undo));
at("back").addEventListener("click", () => guarded(() => back(-1)));
at("markdown").addEventListener("click", () => {
  state.asMarkdown = !state.asMarkdown;
  at("markdown").setAttribute("aria-pressed", String(state.asMarkdown));
  draw();
});
at("rubric-toggle").addEventListener("click", () => {
  const hidden = at("rubric").toggleAttribute("hidden");
  at("rubric-toggle").setAttribute("aria-expanded", String(!hidden));
});

guarded(async () => {
  state.study = await call("/api/study");
  makeChoices();
  if (state.study.scale.words.length === 2) document.querySelector("label[for=note] kbd").textContent = ",";
  if (state.study.rubric) at("rubric").append(markdown(state.study.rubric));
  else { at("rubric").hidden = true; at("rubric-toggle").hidden = true; }
  if (matchMedia("(max-width: 700px)").matches && state.study.rubric) at("rubric-toggle").click();
  await next();
});
