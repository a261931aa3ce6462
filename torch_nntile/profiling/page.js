// SPDX-License-Identifier: BSD-3-Clause
// The drawings of a profile. page.py says what the data is: bars are columns of numbers, what many
// bars have in common is a kind. Both drawings share one span of time, `view`.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const { bars, kinds, rows } = data;
const at = (id) => document.getElementById(id);
const canvas = at("time");
const TOP = 24, MARK = 5;
const rowHeight = rows.length > 24 ? 14 : 22;
const view = { from: 0, to: data.length };
let filter = null; // {by, name} of a key or a table's row
let hovered = -1, chosen = -1, dragged = null;

const KEYS = {
  op: (k) => k.op,
  module: (k) => k.module || "(no module)",
  alike: (k) => (k.module || "(no module)").replace(/\.\d+(?=\.|$)/g, ".*"),
  kernel: (k) => k.kernel,
  line: (k) => k.line || "(no line)",
};
const isTask = (kind) => kind.class === "task";

// Bars of each row by start, and the latest end up to each: what is in view begins there.
const rowBars = rows.map(() => []);
bars.row.forEach((row, b) => rowBars[row].push(b));
for (const own of rowBars) own.sort((a, b) => bars.start[a] - bars.start[b] || bars.length[b] - bars.length[a]);
const end = (b) => bars.start[b] + bars.length[b];
const rowEnds = rowBars.map((own) => {
  let latest = -Infinity;
  return own.map((b) => (latest = Math.max(latest, end(b))));
});
const onPath = new Uint8Array(bars.row.length);
for (const b of data.path) onPath[b] = 1;

function firstAbove(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

function duration(ns) {
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${+(ns / 1e3).toPrecision(4)} µs`;
  if (ns < 1e9) return `${+(ns / 1e6).toPrecision(4)} ms`;
  return `${+(ns / 1e9).toPrecision(4)} s`;
}

function size(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  return bytes < 1e6 ? `${+(bytes / 1e3).toPrecision(3)} kB` : `${+(bytes / 1e6).toPrecision(3)} MB`;
}

// Colors: those of the page's style by name, and a palette for what took longest.
let css = {};
function readStyle() {
  const style = getComputedStyle(document.documentElement);
  const names = "paper ink faint grid band mark others record wait transfer write read evict";
  for (const name of names.split(" "))
    css[name] = style.getPropertyValue(`--${name}`).trim();
}

function longest(by) {
  const sums = new Map();
  for (let b = 0; b < bars.row.length; b++) {
    const kind = kinds[bars.kind[b]];
    if (isTask(kind)) sums.set(KEYS[by](kind), (sums.get(KEYS[by](kind)) || 0) + bars.length[b]);
  }
  return [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a) || (a < b ? -1 : 1));
}

const moduleNames = longest("module");
const moduleColors = new Map(moduleNames.slice(0, data.palette.length).map((name, k) => [name, data.palette[k]]));
let colors = new Map(), kindColors = [];
function chooseColors() {
  const by = at("color").value;
  const names = longest(by);
  colors = new Map(names.slice(0, data.palette.length).map((name, k) => [name, data.palette[k]]));
  kindColors = kinds.map((kind) => (isTask(kind) ? colors.get(KEYS[by](kind)) || css.others : css[kind.class]));
  const keys = at("keys");
  keys.replaceChildren();
  for (const [name, color] of colors) keys.append(key(name, color, () => choose({ by, name })));
  if (names.length > colors.size) keys.append(key(`${names.length - colors.size} others`, css.others));
  const words = {
    record: "host records",
    wait: "host waits",
    transfer: "transfers",
    write: "written to the disk",
    read: "read from it",
    evict: "leaves memory",
  };
  for (const [name, text] of Object.entries(words))
    if (kinds.some((kind) => kind.class === name)) keys.append(key(text, css[name]));
  showFilter();
}

function key(name, color, action) {
  const node = document.createElement(action ? "button" : "span");
  const box = document.createElement("i");
  box.style.background = color;
  node.append(box, name);
  if (action) {
    node.type = "button";
    node.dataset.name = name;
    node.onclick = action;
  }
  return node;
}

// What is looked for: a word, or one key. Bars of other kinds are pale.
let wanted = null; // by kind; null: all
function look() {
  const word = at("find").value.trim().toLowerCase();
  wanted = null;
  if (word || filter)
    wanted = kinds.map((kind) => {
      if (filter && !(isTask(kind) && KEYS[filter.by](kind) === filter.name)) return false;
      const text = [kind.op, kind.kernel, kind.line, kind.module, kind.shapes].join("\n");
      return !word || text.toLowerCase().includes(word);
    });
  let count = 0, sum = 0, all = 0;
  for (let b = 0; b < bars.row.length; b++) {
    if (!isTask(kinds[bars.kind[b]])) continue;
    all++;
    if (isWanted(b)) (count++, (sum += bars.length[b]));
  }
  const picked = wanted || at("path").checked;
  const name = filter ? `${filter.by === "alike" ? "module" : filter.by} ${filter.name}: ` : "";
  at("found").textContent = picked ? `${name}${count} of ${all} tasks, ${duration(sum)}` : `${all} tasks`;
  paint();
}
const isWanted = (b) => (!wanted || wanted[bars.kind[b]]) && (!at("path").checked || onPath[b] === 1);

function showFilter() {
  for (const node of at("keys").children)
    node.classList.toggle("on", !!filter && filter.by === at("color").value && node.dataset.name === filter.name);
  for (const row of document.querySelectorAll("[data-by] tbody tr")) {
    const by = row.closest("[data-by]").dataset.by;
    row.classList.toggle("on", !!filter && filter.by === by && row.cells[0].textContent === filter.name);
  }
  look();
}

// A key or a row of a table: its bars, in a span that shows all of them; again: none.
function choose(next, move = false) {
  const same = filter && next && filter.by === next.by && filter.name === next.name;
  filter = same ? null : next;
  showFilter();
  if (!filter || !move) return;
  let from = Infinity, to = -Infinity, best = -1;
  for (let b = 0; b < bars.row.length; b++) {
    if (!wanted[bars.kind[b]]) continue;
    from = Math.min(from, bars.start[b]);
    to = Math.max(to, end(b));
    if (best < 0 || bars.length[b] > bars.length[best]) best = b;
  }
  if (best < 0) return;
  show(from - (to - from) * 0.05, to + (to - from) * 0.05);
  select(best);
  canvas.scrollIntoView({ block: "nearest", behavior: "smooth" });
}

// The span of time in view.
function show(from, to) {
  const least = 50;
  const span = Math.min(Math.max(to - from, least), data.length);
  view.from = Math.min(Math.max(from, 0), data.length - span);
  view.to = view.from + span;
  paint();
}
function zoom(factor, around = (view.from + view.to) / 2) {
  show(around - (around - view.from) * factor, around + (view.to - around) * factor);
}
const pan = (part) => show(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));

let left = 70, width = 0;
const x = (ns) => left + ((ns - view.from) / (view.to - view.from)) * (width - left);
const when = (pixel) => view.from + ((pixel - left) / (width - left)) * (view.to - view.from);

function prepare(node, height) {
  const ratio = window.devicePixelRatio || 1;
  width = node.clientWidth;
  node.style.height = `${height}px`;
  if (node.width !== Math.round(width * ratio) || node.height !== Math.round(height * ratio)) {
    node.width = Math.round(width * ratio);
    node.height = Math.round(height * ratio);
  }
  const pen = node.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  return pen;
}

function ruler(pen, height) {
  const span = view.to - view.from, most = Math.max(2, Math.floor((width - left) / 110));
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => span / s <= most);
  pen.textAlign = "center";
  for (let k = Math.ceil(view.from / step); k * step <= view.to; k++) {
    const place = Math.round(x(k * step)) + 0.5;
    pen.fillStyle = css.grid;
    pen.fillRect(place, TOP - 8, 1, height);
    pen.fillStyle = css.faint;
    const unit = data.length >= 1e10 ? [1e9, "s"] : data.length >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
    const text = `${+((k * step) / unit[0]).toFixed(6)} ${unit[1]}`;
    const half = pen.measureText(text).width / 2;
    pen.fillText(text, Math.min(Math.max(place, half), width - half), 8);
  }
}

// Bars of less than a pixel share it: the longest gives the color, how much they fill the strength.
function drawRow(pen, row, y) {
  const own = rowBars[row], height = rowHeight - 4;
  let pixel = -1, best = -1, bestRank = -1, filled = 0;
  const flush = () => {
    if (best < 0) return;
    pen.globalAlpha = (isWanted(best) ? 1 : 0.15) * Math.min(1, 0.4 + filled);
    pen.fillStyle = kindColors[bars.kind[best]];
    pen.fillRect(pixel, y, 1, height);
    best = bestRank = -1;
    filled = 0;
  };
  for (let k = firstAbove(rowEnds[row], view.from); k < own.length && bars.start[own[k]] < view.to; k++) {
    const b = own[k];
    const from = Math.max(x(bars.start[b]), left), to = Math.min(x(end(b)), width);
    if (to < left) continue;
    if (to - from < 1) {
      const here = Math.floor(from);
      if (here !== pixel) (flush(), (pixel = here));
      const rank = bars.length[b] + (isWanted(b) ? 1e15 : 0);
      filled += to - from;
      if (rank > bestRank) (bestRank = rank), (best = b);
      continue;
    }
    flush();
    pen.globalAlpha = isWanted(b) ? 1 : 0.15;
    pen.fillStyle = kindColors[bars.kind[b]];
    pen.fillRect(from, y, to - from > 3 ? to - from - 0.5 : to - from, height);
    if (to - from > 34 && rowHeight > 16) label(pen, b, from, to, y + height / 2);
  }
  flush();
  pen.globalAlpha = 1;
}

function label(pen, b, from, to, y) {
  const color = kindColors[bars.kind[b]], text = kinds[bars.kind[b]].op;
  const room = to - from - 8, wide = widthOf(pen, text);
  const letters = Math.floor((text.length * room) / wide) - 2; // without the widest of them
  if (wide > room && letters < 2) return;
  pen.fillStyle = isDark(color) ? "#fff" : "#111";
  pen.textAlign = "left";
  pen.fillText(wide > room ? `${text.slice(0, letters)}…` : text, from + 4, y, room);
}
const widths = new Map();
function widthOf(pen, text) {
  if (!widths.has(text)) widths.set(text, pen.measureText(text).width);
  return widths.get(text);
}
const isDark = (color) => {
  const hex = color.length === 4 ? [...color.slice(1)].map((c) => c + c) : color.slice(1).match(/../g);
  const [r, g, b] = hex.map((part) => parseInt(part, 16));
  return 0.3 * r + 0.59 * g + 0.11 * b < 140;
};

const rowTop = (row) => TOP + row * rowHeight + 2;

function outline(pen, b, color) {
  const from = Math.max(x(bars.start[b]), left), to = Math.min(x(end(b)), width);
  if (to < left || from > width) return;
  pen.strokeStyle = color;
  pen.lineWidth = 2;
  pen.strokeRect(from - 1, rowTop(bars.row[b]) - 1, Math.max(to - from, 2) + 2, rowHeight - 2);
}

function line(pen, points, color) {
  pen.strokeStyle = color;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const [a, b] of points) pen.lineTo(a, b);
  pen.stroke();
}

// From a task to the call that recorded it, or from a call to its tasks.
function drawLinks(pen, b) {
  const ends = bars.call[b] >= 0 ? [[bars.call[b], b]] : (tasksOf.get(b) || []).slice(0, 500).map((t) => [b, t]);
  for (const [call, task] of ends) {
    const above = [x(bars.start[task]), rowTop(bars.row[task]) + rowHeight - 4];
    line(pen, [[x(bars.start[call]), rowTop(bars.row[call])], above], css.mark);
  }
}
const tasksOf = new Map();
bars.call.forEach((call, b) => {
  if (call < 0) return;
  if (!tasksOf.has(call)) tasksOf.set(call, []);
  tasksOf.get(call).push(b);
});

function drawPath(pen) {
  let before = null;
  for (const b of data.path) {
    const y = rowTop(bars.row[b]) + rowHeight / 2 - 2;
    if (before !== null && end(before) < view.to && bars.start[b] > view.from) {
      const from = [x(end(before)), rowTop(bars.row[before]) + rowHeight / 2 - 2];
      const to = [x(bars.start[b]), y];
      if (y !== from[1] || to[0] - from[0] > 1) line(pen, [from, to], css.ink);
    }
    before = b;
  }
}

function drawSteps(pen, height) {
  pen.textAlign = "left";
  let before = -Infinity;
  data.steps.forEach(([from], k) => {
    const place = Math.round(x(from)) + 0.5;
    if (from < view.from || from > view.to || place - before < 8) return;
    before = place;
    pen.setLineDash([4, 3]);
    line(pen, [[place, 14], [place, height]], css.mark);
    pen.setLineDash([]);
    pen.fillStyle = css.mark;
    const text = `step ${k + 1}`, room = (data.steps[k + 1] || [view.to])[0];
    if (x(room) - place > pen.measureText(text).width + 6) pen.fillText(text, place + 3, 18);
  });
}

function drawTime() {
  const height = TOP + rows.length * rowHeight + MARK;
  left = canvas.clientWidth < 800 ? 58 : 70;
  const pen = prepare(canvas, height);
  ruler(pen, height);
  rows.forEach((name, row) => {
    pen.fillStyle = css.ink;
    pen.textAlign = "left";
    pen.fillText(name, 0, rowTop(row) + rowHeight / 2 - 2);
    drawRow(pen, row, rowTop(row));
  });
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, width - left, height);
  pen.clip();
  drawSteps(pen, height);
  if (at("path").checked) drawPath(pen);
  for (const b of new Set([chosen, hovered])) if (b >= 0) drawLinks(pen, b);
  if (chosen >= 0) outline(pen, chosen, css.mark);
  if (hovered >= 0) outline(pen, hovered, css.ink);
  if (dragged && dragged.now !== undefined && !dragged.moves) {
    pen.globalAlpha = 0.25;
    pen.fillStyle = css.mark;
    pen.fillRect(Math.min(dragged.from, dragged.now), 0, Math.abs(dragged.now - dragged.from), height);
    pen.globalAlpha = 1;
  }
  pen.restore();
}

// Memory: one area for each kind or module on top of the other; each pixel at its moment of most bytes.
let areas = [];
function chooseAreas() {
  const m = data.memory, by = at("of").value;
  if (by === "kind") areas = data.memoryKinds.map(([name, color], k) => ({ name, color, of: [k] }));
  else {
    areas = m.modules.map((name, k) => ({ name, color: moduleColors.get(name), of: [k] }));
    const rest = { name: "others", color: css.others, of: areas.filter((a) => !a.color).flatMap((a) => a.of) };
    areas = [...areas.filter((a) => a.color), rest];
  }
  const areaOf = [];
  areas.forEach((area, k) => area.of.forEach((n) => (areaOf[n] = k)));
  memory.area = m[by].map((n) => areaOf[n]);
  const now = areas.map(() => 0), most = areas.map(() => 0);
  let total = 0;
  memory.most = 1;
  memory.area.forEach((area, k) => {
    now[area] += m.bytes[k];
    total += m.bytes[k];
    most[area] = Math.max(most[area], now[area]);
    memory.most = Math.max(memory.most, total);
  });
  const shown = areas.map((area, k) => [area, most[k]]).filter(([, bytes]) => bytes > 0);
  const keys = shown.map(([area, bytes]) => key(`${area.name}, at most ${size(bytes)}`, area.color));
  at("memory-keys").replaceChildren(...keys);
  paint();
}
const memory = { area: [], most: 1, columns: [] };

function drawMemory() {
  const node = at("memory"), height = 150, m = data.memory;
  const pen = prepare(node, height);
  ruler(pen, height);
  const y = (bytes) => height - 4 - (bytes / memory.most) * (height - 4 - TOP);
  pen.fillStyle = css.ink;
  pen.textAlign = "left";
  pen.fillText(size(memory.most), 0, TOP + 4);
  pen.fillText("0 B", 0, height - 8);
  const now = areas.map(() => 0);
  let k = 0, total = 0;
  memory.columns = [];
  for (let pixel = left; pixel < width; pixel++) {
    const until = when(pixel + 1);
    let highest = total, best = null;
    for (; k < m.at.length && m.at[k] < until; k++) {
      now[memory.area[k]] += m.bytes[k];
      total += m.bytes[k];
      if (total > highest && m.at[k] >= view.from) (highest = total), (best = now.slice());
    }
    memory.columns.push(best || now.slice());
  }
  const floor = new Float64Array(memory.columns.length);
  areas.forEach((area, index) => {
    pen.fillStyle = area.color;
    memory.columns.forEach((column, c) => {
      if (column[index] <= 0) return;
      const top = y(floor[c] + column[index]);
      pen.fillRect(left + c, top, 1.02, y(floor[c]) - top);
      floor[c] += column[index];
    });
  });
}

let asked = false;
function paint() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    drawTime();
    drawMemory();
  });
}

// What a bar is, in words.
function describe(b) {
  const kind = kinds[bars.kind[b]];
  const of = kind.class === "wait" ? "the host waits" : kind.class === "record" ? "the host records" : kind.kernel;
  const facts = [`${kind.op} (${of})`, `${duration(bars.length[b])}, from ${duration(bars.start[b])} on`];
  if (kind.parts > 1) facts.push(`part ${bars.part[b]} of ${kind.parts} of its op, by task number`);
  if (kind.note) facts.push(kind.note);
  if (kind.line) facts.push(kind.line);
  if (kind.module) facts.push(kind.module);
  if (kind.shapes) facts.push(`shapes ${kind.shapes}`);
  const rates = [], rate = (amount) => +(amount / Math.max(bars.length[b], 1)).toPrecision(3);
  if (kind.bytes) rates.push(`${size(kind.bytes)}, ${rate(kind.bytes)} GB/s`);
  if (kind.flops) rates.push(`${+(kind.flops / 1e6).toPrecision(3)} Mflop, ${rate(kind.flops)} GFLOP/s`);
  if (rates.length) facts.push(rates.join("; "));
  if (bars.call[b] >= 0) facts.push(`recorded ${duration(bars.start[b] - bars.start[bars.call[b]])} before it began`);
  if (onPath[b]) facts.push("on the critical path");
  return facts;
}
const lines = (texts) => texts.map((text) => Object.assign(document.createElement("div"), { textContent: text }));

function select(b) {
  chosen = b;
  const panel = at("chosen");
  panel.hidden = b < 0;
  panel.replaceChildren();
  if (b >= 0) {
    const buttons = document.createElement("span");
    buttons.className = "buttons";
    const button = (text, action) => {
      const node = document.createElement("button");
      buttons.append(Object.assign(node, { type: "button", textContent: text, onclick: action }));
    };
    const kind = kinds[bars.kind[b]], near = Math.max(bars.length[b] * 4, 1000);
    button("zoom to it", () => show(bars.start[b] - near, end(b) + near));
    for (const by of isTask(kind) ? ["op", "module", "line"] : [])
      button(`all of this ${by}`, () => choose({ by, name: KEYS[by](kind) }));
    if (bars.call[b] >= 0) button("its call", () => goTo(bars.call[b]));
    if (tasksOf.has(b)) button(`its ${tasksOf.get(b).length} tasks`, () => goTo(tasksOf.get(b)[0]));
    panel.append(...lines(describe(b)), buttons);
  }
  paint();
}

// Brings a bar into view, wide enough to be seen.
function goTo(b) {
  const span = Math.min(view.to - view.from, Math.max(bars.length[b] * 200, 5000));
  if (bars.start[b] < view.from || end(b) > view.to || span < view.to - view.from) {
    const middle = bars.start[b] + bars.length[b] / 2;
    show(middle - span / 2, middle + span / 2);
  }
  select(b);
}

let byStart = null;
function next(direction) {
  byStart = byStart || bars.row.map((_, b) => b).sort((a, b) => bars.start[a] - bars.start[b] || a - b);
  const place = chosen < 0 ? (direction > 0 ? -1 : byStart.length) : byStart.indexOf(chosen);
  for (let k = place + direction; k >= 0 && k < byStart.length; k += direction)
    if (isWanted(byStart[k]) && isTask(kinds[bars.kind[byStart[k]]])) return goTo(byStart[k]);
}

// The bar below the mouse: the innermost one, or the nearest within two pixels.
function barAt(px, py) {
  const row = Math.floor((py - TOP) / rowHeight);
  if (row < 0 || row >= rows.length || px < left) return -1;
  const own = rowBars[row], slack = (2 * (view.to - view.from)) / (width - left), time = when(px);
  let best = -1, bestScore = Infinity;
  for (let k = firstAbove(rowEnds[row], time - slack); k < own.length && bars.start[own[k]] <= time + slack; k++) {
    const b = own[k];
    const away = Math.max(bars.start[b] - time, time - end(b), 0);
    if (away > slack) continue;
    const score = away * 1e3 + bars.length[b] * 1e-3;
    if (score <= bestScore) (best = b), (bestScore = score);
  }
  return best;
}

function tip(event, texts) {
  const node = at("tip");
  node.hidden = !texts;
  if (!texts) return;
  node.replaceChildren(...lines(texts));
  const box = node.getBoundingClientRect();
  node.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - box.width - 8))}px`;
  const below = event.clientY + 16;
  node.style.top = `${below + box.height > innerHeight ? Math.max(4, event.clientY - box.height - 12) : below}px`;
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  dragged = { from: event.offsetX, moves: event.shiftKey, view: { ...view } };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (dragged) {
    if (Math.abs(event.offsetX - dragged.from) > 3) dragged.now = event.offsetX;
    if (dragged.moves && dragged.now !== undefined) {
      const by = ((dragged.from - dragged.now) / (width - left)) * (view.to - view.from);
      show(dragged.view.from + by, dragged.view.to + by);
    }
    tip(event, null);
  } else {
    const b = barAt(event.offsetX, event.offsetY);
    tip(event, b >= 0 ? describe(b) : null);
    if (b === hovered) return;
    hovered = b;
  }
  paint();
});
canvas.addEventListener("pointerup", (event) => {
  if (!dragged) return;
  const { from, now, moves } = dragged;
  dragged = null;
  if (now === undefined) select(barAt(event.offsetX, event.offsetY));
  else if (!moves) show(when(Math.min(from, now)), when(Math.max(from, now)));
});
canvas.addEventListener("pointerleave", () => {
  hovered = -1;
  tip(null, null);
  paint();
});
canvas.addEventListener("dblclick", () => show(0, data.length));
for (const node of [canvas, at("memory")])
  node.addEventListener("wheel", (event) => {
    const aside = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * 0.002), when(event.offsetX));
    else if (aside) pan((event.deltaX || event.deltaY) / (width - left));
    else return;
    event.preventDefault();
  }, { passive: false });
at("memory").addEventListener("pointermove", (event) => {
  const column = memory.columns[Math.floor(event.offsetX - left)];
  if (!column) return tip(event, null);
  const there = areas.map((area, k) => [area.name, column[k]]).filter(([, bytes]) => bytes > 0);
  const total = there.reduce((sum, [, bytes]) => sum + bytes, 0);
  const texts = there.sort((a, b) => b[1] - a[1]).slice(0, 10).map(([name, bytes]) => `${name}: ${size(bytes)}`);
  tip(event, [`${size(total)} at ${duration(Math.round(when(event.offsetX)))}`, ...texts]);
});
at("memory").addEventListener("pointerleave", () => tip(null, null));

const SHORT = {
  w: () => zoom(0.7),
  s: () => zoom(1 / 0.7),
  a: () => pan(-0.2),
  d: () => pan(0.2),
  0: () => show(0, data.length),
  "/": () => at("find").focus(),
};
document.addEventListener("keydown", (event) => {
  const { tagName, type } = event.target;
  const writing = /^(INPUT|SELECT)$/.test(tagName) && type !== "checkbox";
  if (event.key === "Escape") {
    at("find").value = "";
    at("path").checked = false;
    select(-1);
    choose(null);
  } else if (event.key === "Enter") {
    if (type === "search" || !/^(INPUT|SELECT|BUTTON)$/.test(tagName)) next(event.shiftKey ? -1 : 1);
  } else if (!writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const action = SHORT[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
});
at("find").addEventListener("input", look);
at("path").addEventListener("change", look);
at("color").addEventListener("change", chooseColors);
at("of").addEventListener("change", chooseAreas);
at("in").onclick = () => zoom(0.5);
at("out").onclick = () => zoom(2);
at("all").onclick = () => show(0, data.length);

// Tables: a title sorts, a row leads to its bars.
for (const box of document.querySelectorAll("[data-by]")) {
  const body = box.querySelector("tbody"), heads = [...box.querySelectorAll("th")];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.onclick = () => {
      const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") !== "descending" : column > 0;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => (column ? parseFloat(row.cells[column].textContent) || 0 : row.cells[0].textContent);
      const words = new Intl.Collator(undefined, { numeric: true });
      const order = (a, b) => (column ? value(a) - value(b) : words.compare(value(a), value(b)));
      body.replaceChildren(...[...body.rows].sort((a, b) => (down ? -order(a, b) : order(a, b))));
    };
    head.onkeydown = (event) => event.key === "Enter" && (event.stopPropagation(), head.onclick());
  });
  const go = (row) => row && choose({ by: box.dataset.by, name: row.cells[0].textContent }, true);
  body.onclick = (event) => go(event.target.closest("tr"));
  for (const row of body.rows) row.tabIndex = 0;
  body.onkeydown = (event) => event.key === "Enter" && (event.stopPropagation(), go(event.target.closest("tr")));
}

function restyle() {
  readStyle();
  chooseColors();
  chooseAreas();
}
if (moduleNames.length <= 1) at("color").value = "op";
else if (moduleNames.length > data.palette.length) at("color").value = "alike";
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
new ResizeObserver(paint).observe(canvas);
restyle();
