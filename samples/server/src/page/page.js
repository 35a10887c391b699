// The numbers of the page: asks the service for its state once a second, and shows what has changed.
import { drawTree } from "/page/tree.js";
import { startAsking } from "/page/ask.js";

const PERIOD = 1000; // milliseconds
const POINTS = 90; // of a curve

const at = (id) => document.getElementById(id);
let key = "";
let paused = false;
let last = null;
const curves = new Map();

export function headers() {
  return key ? { authorization: `Bearer ${key}` } : {};
}

export function count(n) {
  if (n < 10_000) return Math.round(n).toLocaleString("en");
  const [unit, scale] = n < 1e6 ? ["k", 1e3] : n < 1e9 ? ["M", 1e6] : ["G", 1e9];
  return (n / scale).toFixed(n / scale < 100 ? 1 : 0) + unit;
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; ++i) n /= 1024;
  return `${n.toFixed(i > 0 && n < 100 ? 1 : 0)} ${units[i]}`;
}

function seconds(s) {
  return s < 1 ? `${(s * 1000).toFixed(s < 0.01 ? 1 : 0)} ms` : `${s.toFixed(s < 10 ? 2 : 1)} s`;
}

function span(s) {
  if (s < 120) return `${Math.floor(s)} seconds`;
  return s < 7200 ? `${Math.floor(s / 60)} minutes` : `${Math.floor(s / 3600)} hours`;
}

function make(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// A number with its curve. The curve is for the eye only: it says nothing that the number does not.
function tile(name, value, unit, point) {
  let own = curves.get(name);
  if (!own) {
    const box = make("div");
    own = { points: [], value: make("dd"), line: vector("polyline", "spark"), area: vector("polygon", "spark-area") };
    const svg = vector("svg");
    svg.setAttribute("viewBox", `0 0 ${POINTS - 1} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    svg.append(own.area, own.line);
    box.append(make("dt", name), own.value, svg);
    at("tiles").append(box);
    curves.set(name, own);
  }
  own.value.replaceChildren(value, make("small", unit));
  own.points.push(point);
  if (own.points.length > POINTS) own.points.shift();
  const most = Math.max(...own.points, 1e-9);
  const first = POINTS - own.points.length;
  const line = own.points.map((y, i) => `${first + i},${(96 - (90 * y) / most).toFixed(1)}`);
  own.line.setAttribute("points", line.join(" "));
  own.area.setAttribute("points", [`${first},100`, ...line, `${POINTS - 1},100`].join(" "));
}

function vector(name, className) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  if (className) element.setAttribute("class", className);
  return element;
}

function showTiles(state) {
  const before = last ?? state;
  const time = Math.max(state.uptime - before.uptime, 0.001);
  const grown = (name) => Math.max(0, state[name] - before[name]);
  const rate = (name) => (last ? grown(name) / time : 0);
  const answered = (of) => of.answers.reduce((sum, answer) => sum + answer.count, 0);
  const share = state.given > 0 ? (100 * state.found) / state.given : 0;
  const asked = grown("given");
  const recent = asked > 0 ? (100 * grown("found")) / asked : (curves.get("Found in the cache")?.points.at(-1) ?? 0);
  tile("Found in the cache", `${share.toFixed(1)}%`, `of ${count(state.given)} tokens`, recent);
  tile("Answers", count((answered(state) - answered(before)) / time), "a second", (answered(state) - answered(before)) / time);
  tile("Being answered", count(state.in_flight), `of at most ${count(state.max_requests)}`, state.in_flight);
  tile("Tokens computed", count(rate("computed")), "a second", rate("computed"));
  tile("Tokens written", count(rate("generated")), "a second", rate("generated"));
  tile("Keys and values", bytes(state.kv_bytes), `of ${bytes(state.kv_budget_bytes)}`, state.kv_bytes);
}

function showAnswers(state) {
  const rows = state.answers.map((answer) => {
    const row = make("tr");
    const good = answer.code < 400 ? "code good" : "code bad";
    row.append(make("td", answer.path), make("td", answer.code, good), make("td", count(answer.count), "n"),
      make("td", seconds(answer.seconds / answer.count), "n"));
    return row;
  });
  if (rows.length > 0) at("answers").replaceChildren(...rows);
}

function showFacts(state) {
  const facts = [
    ["Connections", count(state.connections)],
    ["Clients that went away", count(state.disconnects)],
    ["Clients that did not read", count(state.stalled)],
    ["Tenants", count(state.tenants)],
    ["Prompts that were answered", count(state.finished)],
    ["Prompts that failed or were given up", count(state.failed)],
    ["Tokens that made room", count(state.evicted)],
    ["Weights", bytes(state.weight_bytes)],
  ];
  at("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
}

function showStatus(text, className) {
  const status = at("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = `status ${className}`;
}

function show(state) {
  at("model").textContent = state.model;
  document.title = `${state.model} · prefix-server`;
  at("about").textContent = `${state.architecture}, ${state.dtype}, up for ${span(state.uptime)}`;
  showStatus(state.status, state.status === "ok" ? "ok" : "bad");
  showTiles(state);
  showAnswers(state);
  showFacts(state);
  drawTree(at("tree"), at("tree-detail"), state);
  at("ask").dataset.writes = state.writes;
  last = state;
}

async function refresh() {
  try {
    const answer = await fetch("/page/state", { headers: headers(), cache: "no-store" });
    if (answer.status === 401) {
      at("key-form").hidden = false;
      showStatus("locked", "bad");
    } else if (answer.ok) {
      at("key-form").hidden = true;
      show(await answer.json());
    } else {
      showStatus(`answers ${answer.status}`, "bad");
    }
  } catch {
    showStatus("not reachable", "bad");
  }
}

async function follow() {
  if (!paused && !document.hidden) await refresh();
  setTimeout(follow, PERIOD);
}

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function nameTheme() {
  at("theme").textContent = dark() ? "Light" : "Dark";
}

at("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  nameTheme();
});
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", paused);
  at("pause").textContent = paused ? "Go on" : "Pause";
});
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = at("key").value;
  refresh();
});

nameTheme();
startAsking();
follow();
