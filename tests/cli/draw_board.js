// Draws a page of `agentgym view` on elements that only keep their content, and prints its board.
"use strict";
const html = require("fs").readFileSync(process.argv[2], "utf8");
const data = html.match(/id="data">(.*?)<.script>/s)[1];
const script = html.match(/<script>(.*)<.script>/s)[1];
const nodes = {};
const element = tag => ({
  tag, children: [], style: {setProperty() {}}, value: "",
  append(...children) { this.children.push(...children.flat()); },
  replaceChildren(...children) { this.children = children; },
  setAttribute(name, value) { this[name] = value; },
  remove() {}, scrollIntoView() {},
});
const byId = id => Object.assign(element(id), id === "data" ? {textContent: data} : {});
Object.assign(global, {
  window: global, location: {hash: ""}, history: {replaceState() {}},
  matchMedia: () => ({matches: false}),
  document: {
    getElementById: id => nodes[id] ??= byId(id),
    createElement: element, createElementNS: (_, tag) => element(tag),
    addEventListener() {}, querySelectorAll: () => [],
  },
});
(0, eval)(script);
const all = node => typeof node === "object" ? [node, ...node.children.flatMap(all)] : [node];
const found = all(nodes.board);
console.log(JSON.stringify({
  open: nodes.board.open,
  text: found.map(node => typeof node === "object" ? node.textContent ?? "" : node).join(" "),
  links: found.filter(node => node.tag === "a").map(node => node.href),
  rows: nodes.list.children.length,
  more: nodes.list.children.at(-1)?.textContent,
  shown: (nodes.list.children.at(-1)?.onclick?.(), nodes.list.children.length),
  curves: found.filter(node => node.tag === "polyline").length,
}));
