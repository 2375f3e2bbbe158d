// As much of a browser's document as page.js asks for. Runs the page named on the command line,
// does what the rest of the arguments say, and prints what is drawn.
"use strict";
const fs = require("fs");
const vm = require("vm");

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], listeners: {}, value: "", dataset: {} });
    this.textContent = "";
    const names = () => (this.attributes.class || "").split(" ").filter(Boolean);
    this.classList = {
      toggle: (name, on) => {
        this.attributes.class = names().filter(n => n !== name).concat(on ? [name] : []).join(" ");
      },
    };
  }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (name.startsWith("data-")) this.dataset[name.slice(5)] = String(value);
  }
  append(...parts) { this.children.push(...parts); }
  replaceChildren(...parts) { this.children = parts; }
  addEventListener(name, action) { this.listeners[name] = action; }
  scrollIntoView() {}
  all() { return [this, ...this.children.flatMap(child => child.all())]; }
}

const text = fs.readFileSync(process.argv[2], "utf8");
const known = {};
const byId = id => (known[id] ||= new Element(id));
byId("data").textContent = text.match(/id="data">(.*?)<\/script>/s)[1];
const boxes = () => byId("picture").all().filter(e => (e.attributes.class || "").startsWith("box"));
const edges = () => byId("picture").all().filter(e => e.tag === "path");
const document = {
  getElementById: byId,
  createElementNS: (_, tag) => new Element(tag),
  createElement: tag => new Element(tag),
  querySelector: tag => byId(tag),
  querySelectorAll: what => what === "g.box" ? boxes() : edges(),
};
vm.runInNewContext(text.match(/<script>\n(.*?)<\/script>/s)[1], { document });
for (const action of process.argv.slice(3)) {
  const [what, value] = action.split("=");
  if (what === "search") { byId("search").value = value; byId("search").listeners.input(); }
  if (what === "click") (known[value] || boxes().find(b => b.dataset.key === value)).listeners.click();
}
const details = byId("details").all().map(e => e.textContent).filter(Boolean);
console.log(JSON.stringify({
  boxes: boxes().map(b => ({ key: b.dataset.key, class: b.attributes.class,
    rect: b.children[0].attributes, texts: b.children.slice(1).map(t => t.textContent) })),
  edges: edges().length,
  count: byId("count").textContent, title: byId("h1").textContent, details,
}));
