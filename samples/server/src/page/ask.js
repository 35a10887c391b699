// The field to ask something: a chat, whose answer comes in pieces, or documents to rank.
import { headers } from "/page/page.js";

const at = (id) => document.getElementById(id);
let running = null;

export function startAsking() {
  at("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(new FormData(at("ask-form")));
  });
  at("ask-form").addEventListener("change", showFields);
  at("stop").addEventListener("click", () => running?.abort());
  showFields();
}

function showFields() {
  at("documents-field").hidden = new FormData(at("ask-form")).get("kind") === "chat";
}

async function ask(form) {
  running = new AbortController();
  at("send").disabled = true;
  at("stop").disabled = false;
  at("took").textContent = "";
  at("answer").className = "answer";
  at("answer").replaceChildren();
  try {
    await (form.get("kind") === "chat" ? chat(form) : rank(form));
  } catch (why) {
    const stopped = why.name === "AbortError";
    at("took").textContent = stopped ? "stopped" : "";
    if (!stopped) {
      at("answer").className = "answer wrong";
      at("answer").textContent = why.message;
    }
  } finally {
    running = null;
    at("send").disabled = false;
    at("stop").disabled = true;
  }
}

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST", body: JSON.stringify(body), signal: running.signal,
    headers: { "content-type": "application/json", ...headers() },
  });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Error(said.error?.message ?? said.message ?? `The service answers ${answer.status}.`);
}

async function chat(form) {
  const begin = performance.now();
  const answer = await post("/v1/chat/completions", {
    messages: [{ role: "user", content: form.get("question") }],
    stream: true, stream_options: { include_usage: true }, temperature: 0, max_tokens: 200,
  });
  let usage = null;
  for await (const piece of pieces(answer.body)) {
    if (piece.error) throw new Error(piece.error.message);
    const { reasoning_content: thought, content } = piece.choices[0]?.delta ?? {};
    if (thought) {
      let said = at("answer").querySelector(".thought");
      if (!said) at("answer").append((said = Object.assign(document.createElement("p"), { className: "thought" })));
      said.append(thought);
    }
    at("answer").append(content ?? "");
    usage = piece.usage ?? usage;
  }
  const time = (performance.now() - begin) / 1000;
  if (usage) {
    const found = usage.prompt_tokens_details.cached_tokens;
    at("took").textContent = `${usage.completion_tokens} tokens in ${time.toFixed(2)} s; ${found} of ${usage.prompt_tokens} ` +
      "tokens of the prompt were in the cache";
  }
}

// The events of a stream, as objects.
async function* pieces(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (text + value).split("\n");
    text = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
    }
  }
}

async function rank(form) {
  const documents = form.get("documents").split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const begin = performance.now();
  const answer = await post("/v1/rerank", { query: form.get("question"), documents });
  const { results } = await answer.json();
  const most = Math.max(...results.map((result) => result.relevance_score), 1e-30);
  const list = document.createElement("ol");
  for (const result of results) {
    const item = document.createElement("li");
    const score = document.createElement("span");
    score.className = "score";
    score.textContent = result.relevance_score.toPrecision(3);
    const bar = document.createElement("span");
    bar.className = "bar";
    const fill = document.createElement("i");
    fill.style.width = `${Math.max(1, (100 * result.relevance_score) / most)}%`;
    bar.append(fill);
    item.append(documents[result.index], score, bar);
    list.append(item);
  }
  at("answer").replaceChildren(list);
  at("took").textContent = `${results.length} documents in ${((performance.now() - begin) / 1000).toFixed(2)} s`;
}
