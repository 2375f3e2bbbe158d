"use strict";
// Lays the steps of a program out in layers and draws them; modules fold up into one box each.
const data = JSON.parse(document.getElementById("data").textContent);
const folded = new Set();
const picture = document.getElementById("picture");
let chosen = null, zoom = 1, drawn = 0, turn = 0;
const SVG = "http://www.w3.org/2000/svg";
const WIDE = 6.7, LINE = 15, MARGIN = 9, GAP = 20, ROW = 34;
// A program with more nodes than this starts with its modules folded.
const MANY = 100;

function element(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A path cut into the modules on the way; a number belongs to the list that it is the place in.
const cuts = new Map();
function prefixes(path) {
  if (!cuts.has(path)) {
    const found = [];
    for (const part of path ? path.split(".") : []) {
      const before = found.length ? found[found.length - 1] + "." : "";
      if (/^\d+$/.test(part) && found.length) found[found.length - 1] = before + part;
      else found.push(before + part);
    }
    cuts.set(path, found);
  }
  return cuts.get(path);
}

// The outermost folded module that holds a path; null where none does.
function holder(path) {
  return prefixes(path).find(prefix => folded.has(prefix)) ?? null;
}

// A parameter is at home with its users, where one folded module has them all.
const users = new Map(data.steps.map(step => [step.name, []]));
for (const step of data.steps) for (const given of step.inputs) users.get(given).push(step);
function owner(step) {
  if (step.kind === "output") return null;
  if (step.path || !step.trained) return holder(step.path);
  const found = new Set(users.get(step.name).map(user => holder(user.path)));
  return found.size === 1 ? [...found][0] : null;
}

// The box that a step is in. One box stands for a folded module, forward and backward apart, so
// that there are no circles.
function home(step) {
  const module = owner(step);
  return module === null ? "n:" + step.name : "m:" + step.phase + ":" + module;
}

// Fold the modules below `above` that lie side by side: one deeper where there is only one.
function fold(above) {
  const paths = new Set(data.steps.map(step => step.path));
  for (let depth = above ? prefixes(above).length : 0; ; depth++) {
    const found = new Set();
    for (const path of paths) {
      const parts = prefixes(path);
      if (parts.length > depth && (!above || parts.includes(above))) found.add(parts[depth]);
    }
    if (found.size === 1 && [...paths].some(path => prefixes(path).length > depth + 1)) continue;
    for (const prefix of found) folded.add(prefix);
    return;
  }
}

function counted(count, word) {
  return count ? `${count} ${word}${count === 1 ? "" : "s"}` : "";
}

// Boxes and edges as they are shown now.
function shown() {
  const boxes = new Map(), homes = new Map();
  for (const step of data.steps) {
    const key = home(step);
    homes.set(step.name, key);
    if (!boxes.has(key)) boxes.set(key, { key, phase: step.phase, inputs: new Set(), steps: [] });
    const box = boxes.get(key);
    box.steps.push(step);
    for (const given of step.inputs) {
      const source = homes.get(given);
      if (source !== undefined && source !== key) box.inputs.add(source);
    }
  }
  for (const box of boxes.values()) {
    const step = box.steps[0];
    // A module of one node is shown as that node.
    if (box.steps.length > 1) box.module = owner(step);
    else box.step = step;
    const given = box.steps.filter(s => s.trained).length;
    const inside = [counted(box.steps.length - given, "node"), counted(given, "parameter")];
    box.lines = box.module === undefined
      ? [step.name, (step.shape + " " + step.dtype).trim(), step.call, step.source]
      : [box.module, inside.filter(Boolean).join(", ")];
    box.lines = box.lines.filter(Boolean).map(l => l.length > 44 ? l.slice(0, 43) + "…" : l);
    box.width = Math.max(...box.lines.map(l => l.length)) * WIDE + 2 * MARGIN;
    box.height = box.lines.length * LINE + MARGIN;
  }
  return boxes;
}

// The row of each box: below what it uses. What does not wait for data (inputs, what is computed
// from parameters only, and in a backward what needs no gradient) is right above its first user.
function rank(boxes) {
  // A folded module may be used on the way through itself: such edges do not count for rows.
  const level = new Map(), open = new Set();
  for (const start of boxes.keys()) {
    const waiting = [start];
    while (waiting.length) {
      const key = waiting[waiting.length - 1], inputs = [...boxes.get(key).inputs];
      const next = level.has(key) ? undefined : inputs.find(k => !level.has(k) && !open.has(k));
      if (next !== undefined) { open.add(key); waiting.push(next); continue; }
      if (!level.has(key)) level.set(key, Math.max(-1, ...inputs.map(k => level.get(k) ?? -1)) + 1);
      open.delete(key);
      waiting.pop();
    }
  }
  const waits = new Set();
  const order = [...boxes.keys()].sort((a, b) => level.get(a) - level.get(b));
  const isData = box => box.step !== undefined && box.step.kind === "placeholder"
    && !box.step.trained;
  for (const key of order) {
    const box = boxes.get(key);
    const inputs = [...box.inputs].filter(k => boxes.get(k).phase === box.phase);
    if (inputs.some(k => waits.has(k) || isData(boxes.get(k)))) waits.add(key);
  }
  const first = new Map();
  for (const key of order.reverse()) {
    if (!waits.has(key) && first.get(key) > level.get(key) + 1) level.set(key, first.get(key) - 1);
    for (const source of boxes.get(key).inputs) {
      if (level.get(source) < level.get(key)) {
        first.set(source, Math.min(first.get(source) ?? Infinity, level.get(key)));
      }
    }
  }
  return level;
}

// Rows of boxes and of places that long edges pass through, each with its neighbours.
function layers(boxes) {
  const level = rank(boxes), rows = [], edges = [];
  const put = (row, entry) => {
    Object.assign(entry, { above: [], below: [], x: 0 });
    (rows[row] ||= []).push(entry);
    return entry;
  };
  for (const [key, box] of boxes) put(level.get(key), box);
  for (const [key, box] of boxes) {
    for (const source of box.inputs) {
      const start = boxes.get(source), points = [start];
      for (let row = level.get(source) + 1; row < level.get(key); row++) {
        points.push(put(row, { width: 6, height: 0 }));
      }
      points.push(box);
      if (level.get(source) < level.get(key)) {
        for (let at = 1; at < points.length; at++) {
          points[at - 1].below.push(points[at]);
          points[at].above.push(points[at - 1]);
        }
      }
      const kind = box.step && box.step.kind === "output" ? "edge result"
        : start.phase === box.phase ? "edge" : "edge saved";
      edges.push({ from: source, to: key, points, kind });
    }
  }
  return [rows.filter(Boolean), edges];
}

// Places of a row's entries, in their order and apart, as near as can be to where they want to be.
function settle(row) {
  const groups = [];
  let offset = 0, last = null;
  for (const entry of row) {
    if (last) offset += (last.width + entry.width) / 2 + (last.key && entry.key ? GAP : GAP / 2);
    last = entry;
    groups.push({ sum: entry.wanted - offset, count: 1, entries: [[entry, offset]] });
    // Groups that would overlap become one.
    while (groups.length > 1) {
      const b = groups[groups.length - 1], a = groups[groups.length - 2];
      if (a.sum / a.count <= b.sum / b.count) break;
      groups.splice(-2, 2, {
        sum: a.sum + b.sum, count: a.count + b.count, entries: a.entries.concat(b.entries),
      });
    }
  }
  for (const group of groups) {
    for (const [entry, at] of group.entries) entry.x = group.sum / group.count + at;
  }
}

function place(boxes) {
  const [rows, edges] = layers(boxes);
  const mean = entries => entries.reduce((sum, e) => sum + e.x, 0) / entries.length;
  for (let sweep = 0; sweep < 8; sweep++) {
    const side = sweep % 2 ? "below" : "above";
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      for (const entry of row) entry.wanted = entry[side].length ? mean(entry[side]) : entry.x;
      if (sweep < 6) row.sort((a, b) => a.wanted - b.wanted);
      settle(row);
    }
  }
  let y = MARGIN, left = 0, right = 0;
  for (const row of rows) {
    for (const entry of row) {
      entry.y = y;
      left = Math.min(left, entry.x - entry.width / 2);
      right = Math.max(right, entry.x + entry.width / 2);
    }
    const height = Math.max(...row.map(e => e.height));
    for (const entry of row) if (!entry.key) entry.height = height;
    y += height + ROW;
  }
  return [edges, left - MARGIN, right + MARGIN, y - ROW + MARGIN];
}

function route(points) {
  let text = "", before = null;
  for (const point of points) {
    if (before === null) text = `M${point.x} ${point.y + point.height}`;
    else {
      const y = before.y + before.height, middle = (y + point.y) / 2;
      text += `C${before.x} ${middle} ${point.x} ${middle} ${point.x} ${point.y}`;
      if (!point.key) text += `V${point.y + point.height}`;
    }
    before = point;
  }
  return text;
}

function draw() {
  const boxes = shown(), [edges, left, right, height] = place(boxes), width = right - left;
  const root = element("svg", {
    width: width * zoom, height: height * zoom, viewBox: `${left} 0 ${width} ${height}`,
    role: "img", "aria-label": data.title,
  });
  for (const edge of edges) {
    root.append(element("path", {
      d: route(edge.points), class: edge.kind,
      "data-from": edge.from, "data-to": edge.to,
    }));
  }
  for (const box of boxes.values()) {
    const kind = box.module === undefined ? `${box.step.phase} ${box.step.kind}`
      : `${box.phase} module`;
    const group = element("g", { class: "box " + kind, "data-key": box.key, tabindex: 0 });
    group.append(element("rect", {
      x: box.x - box.width / 2, y: box.y, width: box.width, height: box.height, rx: 4,
    }));
    box.lines.forEach((line, at) => group.append(element("text", {
      x: box.x, y: box.y + MARGIN / 2 + LINE * (at + 0.75), class: at ? "" : "title",
    }, line)));
    const open = () => {
      if (box.module === undefined) { choose(box.step); return; }
      folded.delete(box.module);
      fold(box.module);
      draw();
    };
    group.addEventListener("click", open);
    group.addEventListener("keydown", event => { if (event.key === "Enter") open(); });
    root.append(group);
  }
  picture.replaceChildren(root);
  drawn = width;
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
  const keys = new Set(found.map(home));
  const groups = [];
  for (const group of document.querySelectorAll("g.box")) {
    const key = group.dataset.key;
    group.classList.toggle("found", keys.has(key));
    group.classList.toggle("chosen", key === "n:" + chosen);
    if (keys.has(key)) groups.push(group);
  }
  for (const edge of document.querySelectorAll("path.edge")) {
    const near = [edge.dataset.from, edge.dataset.to].includes("n:" + chosen);
    edge.classList.toggle("near", near);
  }
  document.getElementById("count").textContent =
    text ? `${found.length} of ${data.steps.length}` : `${data.steps.length} nodes`;
  return groups;
}

// Show one of the places that a search has found; each time the next.
function visit() {
  const groups = mark();
  if (!groups.length) return;
  groups[turn % groups.length].scrollIntoView({ block: "center", inline: "center" });
  turn += 1;
}

function scale(factor) {
  zoom = factor;
  draw();
}

document.querySelector("h1").textContent = data.title;
const actions = {
  fold: () => { folded.clear(); fold(""); draw(); },
  unfold: () => { folded.clear(); draw(); },
  smaller: () => scale(zoom / 1.25),
  larger: () => scale(zoom * 1.25),
  fit: () => scale(Math.min(1, (picture.clientWidth - 40) / drawn)),
};
for (const [name, action] of Object.entries(actions)) {
  document.getElementById(name).addEventListener("click", action);
}
const search = document.getElementById("search");
search.addEventListener("input", () => { turn = 0; visit(); });
search.addEventListener("keydown", event => { if (event.key === "Enter") visit(); });
if (data.steps.length > MANY) fold("");
draw();
picture.scrollLeft = (picture.scrollWidth - picture.clientWidth) / 2;
