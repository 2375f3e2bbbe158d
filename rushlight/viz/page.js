"use strict";
// Lays the steps of a program out in layers and draws them; modules fold up into one box each.
const data = JSON.parse(document.getElementById("data").textContent);
const folded = new Set();
let chosen = null;
const SVG = "http://www.w3.org/2000/svg";
const WIDE = 6.7, LINE = 15, MARGIN = 9, GAP = 24, ROW = 46;

function element(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The outermost folded module that holds a path; null where none does.
function holder(path) {
  const parts = path ? path.split(".") : [];
  for (let count = 1; count <= parts.length; count++) {
    const prefix = parts.slice(0, count).join(".");
    if (folded.has(prefix)) return prefix;
  }
  return null;
}

// Boxes and edges as they are shown now. One box stands for a folded module, forward and backward
// apart, so that there are no circles.
function shown() {
  const boxes = new Map(), home = new Map();
  for (const step of data.steps) {
    const module = step.kind === "output" ? null : holder(step.path);
    const key = module === null ? "n:" + step.name : "m:" + step.phase + ":" + module;
    home.set(step.name, key);
    if (!boxes.has(key)) {
      boxes.set(key, module === null
        ? { key, step, inputs: new Set(), steps: [step] }
        : { key, module, phase: step.phase, inputs: new Set(), steps: [] });
    }
    const box = boxes.get(key);
    if (box.module !== undefined) box.steps.push(step);
    for (const given of step.inputs) {
      const source = home.get(given);
      if (source !== undefined && source !== key) box.inputs.add(source);
    }
  }
  for (const box of boxes.values()) {
    box.lines = box.module === undefined
      ? [box.step.name, (box.step.shape + " " + box.step.dtype).trim(), box.step.call]
      : [box.module, box.steps.length + " nodes"];
    box.lines = box.lines.filter(Boolean).map(l => l.length > 44 ? l.slice(0, 43) + "…" : l);
    box.width = Math.max(...box.lines.map(l => l.length)) * WIDE + 2 * MARGIN;
    box.height = box.lines.length * LINE + MARGIN;
  }
  return boxes;
}

function place(boxes) {
  // A folded module may be used on the way through itself: such edges do not count for layers.
  const level = new Map(), open = new Set();
  const depth = key => {
    if (level.has(key)) return level.get(key);
    if (open.has(key)) return -1;
    open.add(key);
    let found = 0;
    for (const source of boxes.get(key).inputs) found = Math.max(found, depth(source) + 1);
    open.delete(key);
    level.set(key, found);
    return found;
  };
  for (const key of boxes.keys()) depth(key);
  const rows = [];
  for (const [key, box] of boxes) (rows[level.get(key)] ||= []).push(box);
  let y = MARGIN, widest = 0;
  for (const row of rows.filter(Boolean)) {
    for (const box of row) {
      const above = [...box.inputs].map(k => boxes.get(k)).filter(b => b.x !== undefined);
      box.wanted = above.length ? above.reduce((sum, b) => sum + b.x, 0) / above.length : 0;
    }
    row.sort((a, b) => a.wanted - b.wanted);
    const total = row.reduce((sum, b) => sum + b.width + GAP, -GAP);
    let x = -total / 2;
    for (const box of row) {
      box.x = x + box.width / 2;
      box.y = y;
      x += box.width + GAP;
    }
    widest = Math.max(widest, total);
    y += Math.max(...row.map(b => b.height)) + ROW;
  }
  return [widest + 2 * MARGIN, y];
}

function draw() {
  const boxes = shown(), [width, height] = place(boxes);
  const root = element("svg", {
    width, height, viewBox: `${-width / 2} 0 ${width} ${height}`, role: "img",
    "aria-label": data.title,
  });
  for (const box of boxes.values()) {
    for (const key of box.inputs) {
      const from = boxes.get(key), y1 = from.y + from.height, middle = (y1 + box.y) / 2;
      root.append(element("path", {
        d: `M${from.x} ${y1}C${from.x} ${middle} ${box.x} ${middle} ${box.x} ${box.y}`,
      }));
    }
  }
  for (const box of boxes.values()) {
    const kind = box.module === undefined ? `${box.step.phase} ${box.step.kind}`
      : `module ${box.phase}`;
    const group = element("g", { class: "box " + kind, "data-key": box.key, tabindex: 0 });
    group.append(element("rect", {
      x: box.x - box.width / 2, y: box.y, width: box.width, height: box.height, rx: 4,
    }));
    box.lines.forEach((line, at) => group.append(element("text", {
      x: box.x, y: box.y + MARGIN / 2 + LINE * (at + 0.75), class: at ? "" : "title",
    }, line)));
    const open = () => {
      if (box.module !== undefined) { folded.delete(box.module); draw(); } else choose(box.step);
    };
    group.addEventListener("click", open);
    group.addEventListener("keydown", event => { if (event.key === "Enter") open(); });
    root.append(group);
  }
  document.getElementById("picture").replaceChildren(root);
  mark();
}

function choose(step) {
  chosen = step.name;
  const list = document.createElement("dl");
  const add = (name, value) => {
    if (!value) return;
    const term = document.createElement("dt"), entry = document.createElement("dd");
    term.textContent = name;
    entry.textContent = value;
    list.append(term, entry);
  };
  for (const name of ["name", "call", "shape", "dtype", "source", "phase"]) add(name, step[name]);
  add("module", step.path);
  add("inputs", step.inputs.join(", "));
  add("users", data.steps.filter(s => s.inputs.includes(step.name)).map(s => s.name).join(", "));
  const parts = [list];
  if (step.path) {
    const button = document.createElement("button");
    button.textContent = "Fold " + step.path;
    button.addEventListener("click", () => { folded.add(step.path); draw(); });
    parts.push(button);
  }
  document.getElementById("details").replaceChildren(...parts);
  mark();
}

function matches(step, text) {
  return [step.name, step.call, step.shape, step.dtype, step.source, step.path]
    .some(field => field.toLowerCase().includes(text));
}

function mark() {
  const text = document.getElementById("search").value.trim().toLowerCase();
  const found = text ? data.steps.filter(step => matches(step, text)) : [];
  const keys = new Set();
  for (const step of found) {
    const module = step.kind === "output" ? null : holder(step.path);
    keys.add(module === null ? "n:" + step.name : "m:" + step.phase + ":" + module);
  }
  let first = null;
  for (const group of document.querySelectorAll("g.box")) {
    const key = group.dataset.key;
    group.classList.toggle("found", keys.has(key));
    group.classList.toggle("chosen", key === "n:" + chosen);
    if (first === null && keys.has(key)) first = group;
  }
  document.getElementById("count").textContent =
    text ? `${found.length} of ${data.steps.length}` : `${data.steps.length} nodes`;
  return first;
}

document.querySelector("h1").textContent = data.title;
document.getElementById("search").addEventListener("input", () => {
  const first = mark();
  if (first) first.scrollIntoView({ block: "center", inline: "center" });
});
document.getElementById("fold").addEventListener("click", () => {
  for (const step of data.steps) if (step.path) folded.add(step.path.split(".")[0]);
  draw();
});
document.getElementById("unfold").addEventListener("click", () => { folded.clear(); draw(); });
draw();
