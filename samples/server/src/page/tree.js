// The tree of the cache as a picture:
//
//   +-----------+--------------------+-----------+
//   | tenant 1  |                    | own       |   a bar is as high as all that begins with it
//   |           |  shared, 3 uses    +-----------+
//   |           |                    | own       |
//   +-----------+--------------------+-----------+
//
// Lengths are square roots, so that a prefix of thousands of tokens and a question of ten can both be seen.

const HEIGHT = 420; // of the picture at most, in pixels
const ROW = [5, 26]; // the least and the most of one leaf
const HEADING = 108;

let drawn = ""; // what the picture shows
let current = null; // the node that has the keyboard
let width = 0;

export function drawTree(place, detail, state) {
  const text = JSON.stringify(state.tree);
  if (text === drawn && place.clientWidth === width) return;
  drawn = text;
  width = place.clientWidth;
  const tree = state.tree;
  if (!tree || tree.nodes.length === 0 || tree.tokens === 0) {
    const why = tree ? "Nothing yet. Ask something below, and look again."
      : `${state.nodes.toLocaleString("en")} nodes: too many to draw.`;
    const empty = document.createElement("p");
    empty.className = "empty";
    empty.textContent = why;
    place.replaceChildren(empty);
    return;
  }
  const hadFocus = place.contains(document.activeElement);
  const { roots, bars } = layOut(tree, width);
  const svg = element("svg", { viewBox: `0 0 ${width} ${roots.height}`, height: roots.height, role: "tree",
    "aria-label": `The cache: ${tree.tokens.toLocaleString("en")} tokens` });
  if (!bars.has(current)) current = roots.list[0].node;
  for (const bar of bars.values()) svg.append(paint(bar, bars, detail));
  place.replaceChildren(svg);
  if (hadFocus) bars.get(current).shape.focus();
}

// Where each bar lies: depth first, heavy ones on top.
function layOut(tree, width) {
  const bars = new Map(tree.nodes.map((node) => [node.node, { ...node, children: [] }]));
  const list = [];
  for (const bar of bars.values()) (bar.parent === null ? list : bars.get(bar.parent).children).push(bar);
  const length = (bar) => (bar.tokens > 0 ? 3 + Math.sqrt(bar.tokens) : 0);
  const order = []; // parents first
  const stack = [...list];
  while (stack.length > 0) {
    const bar = stack.pop();
    order.push(bar);
    bar.children.sort((a, b) => b.below - a.below);
    stack.push(...bar.children);
  }
  let reach = 1;
  for (const bar of order) {
    const parent = bars.get(bar.parent);
    bar.level = parent ? parent.level + 1 : 1;
    bar.from = parent ? parent.from + length(parent) : 0;
    reach = Math.max(reach, bar.from + length(bar));
  }
  for (const bar of [...order].reverse()) bar.leaves = Math.max(1, bar.children.reduce((sum, child) => sum + child.leaves, 0));
  const leaves = list.reduce((sum, root) => sum + root.leaves, 0);
  const row = Math.min(ROW[1], Math.max(ROW[0], HEIGHT / leaves));
  const scale = (width - HEADING) / reach;
  list.sort((a, b) => b.below - a.below);
  let top = 0;
  for (const root of list) {
    place(root, top);
    top += root.leaves * row;
  }
  return { roots: { list, height: Math.ceil(top) }, bars };

  function place(bar, y) {
    const todo = [[bar, y]];
    while (todo.length > 0) {
      const [next, y] = todo.pop();
      next.y = y;
      next.height = next.leaves * row;
      next.x = next.parent === null ? 0 : HEADING + next.from * scale;
      next.width = (next.parent === null ? HEADING : 0) + length(next) * scale;
      let below = y;
      for (const child of next.children) {
        todo.push([child, below]);
        below += child.leaves * row;
      }
    }
  }
}

function shade(uses) {
  return uses <= 1 ? "u0" : uses <= 3 ? "u1" : uses <= 9 ? "u2" : uses <= 49 ? "u3" : "u4";
}

function words(bar) {
  const parts = [];
  if (bar.namespace) parts.push(bar.namespace);
  if (bar.tokens > 0) {
    parts.push(`${bar.tokens.toLocaleString("en")} tokens from position ${bar.start.toLocaleString("en")}`,
      bar.uses === 1 ? "used once" : `used ${bar.uses.toLocaleString("en")} times`);
  }
  if (bar.held > 0) parts.push("in use now");
  if (bar.below > bar.tokens) parts.push(`${bar.below.toLocaleString("en")} tokens with all that begins with it`);
  if (bar.hidden > 0) parts.push(`${bar.hidden.toLocaleString("en")} smaller parts are not drawn`);
  return parts.join(", ");
}

function label(bar) {
  if (bar.parent === null) return bar.namespace;
  const whole = `${bar.tokens.toLocaleString("en")} tokens, ${bar.uses.toLocaleString("en")} ×`;
  return bar.width > 8 + whole.length * 6.6 ? whole : bar.tokens.toLocaleString("en");
}

function paint(bar, bars, detail) {
  const classes = [bar.parent === null && bar.tokens === 0 ? "root" : shade(bar.uses)];
  if (bar.held > 0 && bar.parent !== null) classes.push("held");
  const group = element("g", { class: classes.join(" "), role: "treeitem", tabindex: bar.node === current ? 0 : -1,
    "aria-level": bar.level, "aria-label": words(bar), "data-node": bar.node });
  group.append(element("rect", { x: bar.x, y: bar.y, width: Math.max(bar.width, 1), height: bar.height, rx: 3 }));
  const text = label(bar);
  if (bar.height >= 15 && bar.width > 8 + text.length * 6.6) {
    const place = element("text", { x: bar.x + 7, y: bar.y + bar.height / 2 + 4, "aria-hidden": "true" });
    place.textContent = text;
    group.append(place);
  }
  group.addEventListener("pointerenter", () => (detail.textContent = words(bar)));
  group.addEventListener("focus", () => (detail.textContent = words(bar)));
  group.addEventListener("click", () => choose(bar, bars));
  group.addEventListener("keydown", (event) => {
    const next = neighbour(bar, bars, event.key);
    if (next === undefined) return;
    event.preventDefault();
    if (next) choose(next, bars);
  });
  bar.shape = group;
  return group;
}

// Undefined: not a key of the tree. Null: nothing lies there.
function neighbour(bar, bars, key) {
  const parent = bars.get(bar.parent);
  const beside = parent ? parent.children : [...bars.values()].filter((other) => other.parent === null).sort((a, b) => a.y - b.y);
  const i = beside.indexOf(bar);
  switch (key) {
    case "ArrowLeft": return parent ?? null;
    case "ArrowRight": return bar.children[0] ?? null;
    case "ArrowUp": return beside[i - 1] ?? null;
    case "ArrowDown": return beside[i + 1] ?? null;
    case "Home": return beside[0];
    case "End": return beside[beside.length - 1];
    default: return undefined;
  }
}

function choose(bar, bars) {
  bars.get(current)?.shape.setAttribute("tabindex", -1);
  current = bar.node;
  bar.shape.setAttribute("tabindex", 0);
  bar.shape.focus();
}

function element(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
