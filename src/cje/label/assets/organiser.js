"use strict";
const at = (id) => document.getElementById(id);
const number = (x) => { const s = Math.abs(x).toFixed(3); return (x < 0 && Number(s) !== 0 ? "\u2212" : "") + s; };

function rows(table, cells) {
  at(table).querySelector("tbody").replaceChildren(...cells.map((row) => {
    const tr = el("tr");
    row.forEach((cell, i) => { const td = el(i ? "td" : "th", String(cell)); if (!i) td.scope = "row"; td.dir = i ? "ltr" : "auto"; tr.append(td); });
    return tr;
  }));
}

function time(seconds) {
  const hours = seconds / 3600;
  const minutes = Math.max(1, Math.round(seconds / 60));
  return hours >= 1 ? `${hours.toFixed(1)} hours` : `${minutes} ${minutes === 1 ? "minute" : "minutes"}`;
}

function verdict(found) {
  const box = at("verdict");
  box.className = "";
  if (found.decision === null) {
    const open = found.looks.some((look) => look.open);
    return open ? "" : `No interval yet: the first comes at label ${found.first_look}, or later if the result depends on few labels.`;
  }
  const { verdict, more_labels } = found.decision;
  box.className = verdict.toLowerCase();
  if (verdict === "PASS") return `PASS: the candidate is ${found.claim}. You can stop.`;
  if (verdict === "FAIL") return `FAIL: the candidate is not ${found.claim}. You can stop.`;
  return "Keep labelling" + (more_labels === null ? ": no number of labels would decide at the present estimate."
    : `: about ${more_labels.toLocaleString("en")} more labels if the present estimate is right.`);
}

async function refresh() {
  let found;
  try {
    const reply = await fetch("/api/organiser");
    if (!reply.ok) throw new Error(await reply.text());
    found = await reply.json();
  } catch (error) { at("problem").textContent = `No answer from the server: ${error.message}`; return; }
  at("problem").textContent = found.problem || "";
  at("verdict").textContent = verdict(found);
  rows("looks", found.looks.map((look) => [look.name, number(look.value),
    look.open ? `${number(look.low)} to ${number(look.high)}` : "not yet"]));
  at("why").textContent = `Look as often as you like: the ${Math.round(100 * found.level)}% intervals hold at all looks together, ` +
    "so you may stop as soon as the question is answered. Intervals for a fixed sample size do not allow this.";
  const facts = [["labels", `${found.labels} of ${found.goal}`], ["design", found.design]];
  if (found.design === "active") facts.push(["judge", found.informative === null ? "not yet known whether its score shows where its errors are large"
    : found.informative ? "its score shows where its errors are large: more labels go there" : "its score does not show where its errors are large: rows are drawn at random"]);
  if (found.pace_seconds) facts.push(["pace", `${Math.round(found.pace_seconds)} s per label`],
    ["time left", time(found.pace_seconds * Math.max(found.goal - found.labels, 0))]);
  if (found.cost) facts.push(["cost so far", found.cost.toLocaleString("en")]);
  if (found.agreement) facts.push(["agreement", `${Math.round(100 * found.agreement.same)}% of ${found.agreement.items} items labelled twice`]);
  for (const [policy, count] of Object.entries(found.skips)) facts.push([`skips, ${policy}`, count]);
  if (found.finished) facts.push(["state", "complete"]);
  at("facts").replaceChildren(...facts.flatMap(([name, value]) => [el("dt", name), el("dd", String(value))]));
  rows("raters", found.raters.map((r) => [r.rater, r.labels, r.skips]));
}
refresh();
setInterval(refresh, 5000);
