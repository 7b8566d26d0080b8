"use strict";
const d = JSON.parse(document.getElementById("data").textContent);
const svg = document.getElementById("chart"), read = document.getElementById("read");
const L = 56, T = 22, n = d.load.length, perDay = 86400 / d.step;
let W = 1200, R = 1186, B = 340, T2 = 384, B2 = 490;
function measure() { const r = svg.getBoundingClientRect(); W = Math.max(240, r.width); const H = Math.max(300, r.height);
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`); R = W - 12; B = 0.64 * H; T2 = B + 42; B2 = H - 30; }
let from = 0, to = n, mark = null;
const el = (name, attrs, text) => { const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const k in attrs) e.setAttribute(k, attrs[k]); if (text !== undefined) e.textContent = text; svg.appendChild(e); return e; };
const when = (i, short) => new Date((d.start + i * d.step) * 1000).toISOString().slice(short ? 5 : 0, short === 2 ? 16 : short ? 10 : 16).replace("T", " ");
const x = i => L + (R - L) * (i - from) / (to - from);
const fmt = v => v === null || v === undefined ? "unknown" : v >= 1000 ? Math.round(v).toLocaleString("en") : +v.toPrecision(3) + "";
function bins() {
  const size = Math.max(1, Math.ceil((to - from) / (R - L))), out = [];
  for (let i = from; i < to; i += size) {
    const b = { i: i, load: null, p50: null, p95: null, cap: Infinity, peaker: 0, reactive: 0, short: false };
    for (let j = i; j < Math.min(to, i + size); j++) {
      const c = d.peaker[j] * d.capacity;
      if (d.load[j] !== null) { b.load = Math.max(b.load ?? 0, d.load[j]); if (d.required[j] > d.peaker[j]) b.short = true; }
      if (d.p95[j] !== null) { b.p50 = b.p50 === null ? d.p50[j] : Math.min(b.p50, d.p50[j]); b.p95 = Math.max(b.p95 ?? 0, d.p95[j]); }
      b.cap = Math.min(b.cap, c); b.peaker = Math.max(b.peaker, d.peaker[j]); b.reactive = Math.max(b.reactive, d.reactive[j]);
    }
    out.push(b);
  }
  return { size, out };
}
function path(points, step) {
  let text = "", pen = false;
  for (const [px, py] of points) {
    if (py === null) { pen = false; continue; }
    text += pen ? (step ? "H" + px.toFixed(1) + "V" + py.toFixed(1) : "L" + px.toFixed(1) + " " + py.toFixed(1)) : "M" + px.toFixed(1) + " " + py.toFixed(1);
    pen = true;
  }
  return text;
}
function nice(top) { const p = 10 ** Math.floor(Math.log10(top || 1)); for (const m of [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 4.8, 6, 8, 10]) if (top <= m * p) return m * p; return top; }
function draw() {
  svg.replaceChildren(); measure();
  const { size, out } = bins();
  const high = nice(1.04 * Math.max(...out.map(b => Math.max(b.load ?? 0, Math.min(b.p95 ?? 0, 3 * (b.load ?? 0) + d.capacity), b.cap === Infinity ? 0 : b.cap))));
  const y = v => Math.max(T, B - (B - T) * v / high);
  const most = Math.max(1, ...out.map(b => Math.max(b.peaker, b.reactive)));
  const y2 = v => B2 - (B2 - T2) * v / most;
  for (let k = 0; k <= 4; k++) { const v = high * k / 4;
    el("line", { x1: L, x2: R, y1: y(v), y2: y(v), class: "grid" }); el("text", { x: L - 8, y: y(v) + 4, "text-anchor": "end" }, fmt(v)); }
  for (const v of [0, Math.round(most / 2), most]) { el("line", { x1: L, x2: R, y1: y2(v), y2: y2(v), class: "grid" });
    el("text", { x: L - 8, y: y2(v) + 4, "text-anchor": "end" }, v); }
  el("text", { x: L, y: T - 8 }, "load and capacity (" + d.unit + ")"); el("text", { x: L, y: T2 - 10 }, "replicas in service" + (to - from < 9 * perDay ? "; ▲ build begins, ▼ removed" : ""));
  const days = (to - from) / perDay, fits = (R - L) / 56, every = [1 / 12, 0.25, 1, 2, 4, 7, 14, 28, 56].find(e => days / e <= fits) ?? 112;
  const first = Math.ceil((d.start + from * d.step) / (every * 86400)) * every * 86400;
  for (let s = first; s < d.start + to * d.step; s += every * 86400) { const i = (s - d.start) / d.step;
    el("line", { x1: x(i), x2: x(i), y1: T, y2: B2, class: "grid" });
    el("text", { x: x(i), y: B2 + 18, "text-anchor": "middle" }, when(i, every < 1 ? 2 : 1)); }
  if (d.compared > from) el("rect", { x: L, y: T, width: Math.max(0, x(Math.min(to, d.compared)) - L), height: B2 - T, fill: "var(--soft)", opacity: .12 });
  for (const b of out) if (b.short) el("rect", { x: x(b.i), y: T, width: Math.max(1.2, x(b.i + size) - x(b.i)), height: B - T, fill: "var(--short)", opacity: .22 });
  let run = [];
  const flush = () => { if (run.length > 1) { const up = run.map(b => [x(b.i), y(b.p95)]), down = run.slice().reverse().map(b => [x(b.i), y(b.p50)]);
    el("path", { d: path(up.concat(down)) + "Z", fill: "var(--band)", opacity: .32 }); } run = []; };
  for (const b of out) { if (b.p95 === null) flush(); else run.push(b); } flush();
  el("path", { d: path(out.map(b => [x(b.i), y(b.cap)]), true), fill: "none", stroke: "var(--peaker)", "stroke-width": 2 });
  el("path", { d: path(out.map(b => [x(b.i), b.load === null ? null : y(b.load)])), fill: "none", stroke: "var(--load)", "stroke-width": 1.3 });
  el("path", { d: path(out.map(b => [x(b.i), y2(b.reactive)]), true), fill: "none", stroke: "var(--reactive)", "stroke-width": 1.2, opacity: .8 });
  el("path", { d: path(out.map(b => [x(b.i), y2(b.peaker)]), true), fill: "none", stroke: "var(--peaker)", "stroke-width": 2 });
  if (to - from < 9 * perDay) for (const [i, action, count, reason] of d.events) if (i >= from && i < to) {
    const out_ = action === "scale_out", e = el("text", { x: x(i), y: out_ ? T2 + 2 : B2 - 2, "text-anchor": "middle" }, out_ ? "▲" : "▼");
    e.style.fill = out_ ? "var(--peaker)" : "var(--reactive)";
    const t = document.createElementNS("http://www.w3.org/2000/svg", "title"); t.textContent = when(i) + " " + action + " " + count + ": " + reason; e.appendChild(t); }
  mark = el("line", { x1: -9, x2: -9, y1: T, y2: B2, stroke: "var(--soft)" });
}
const index = e => { const r = svg.getBoundingClientRect(); const px = (e.clientX - r.left) * W / r.width;
  return Math.max(from, Math.min(to - 1, Math.round(from + (px - L) / (R - L) * (to - from)))); };
let start = null, box = null;
svg.addEventListener("pointermove", e => { const i = index(e); mark.setAttribute("x1", x(i)); mark.setAttribute("x2", x(i));
  read.textContent = `${when(i)} UTC: load ${fmt(d.load[i])}, forecast p50 ${fmt(d.p50[i])}, p95 ${fmt(d.p95[i])}, capacity ${fmt(d.peaker[i] * d.capacity)} (${d.peaker[i]} replicas; ${d.reactive_name}: ${d.reactive[i]})`;
  if (box) { const a = Math.min(x(start), x(i)); box.setAttribute("x", a); box.setAttribute("width", Math.abs(x(i) - x(start))); } });
svg.addEventListener("pointerdown", e => { start = index(e); svg.setPointerCapture(e.pointerId); box = el("rect", { x: x(start), y: T, width: 0, height: B2 - T, fill: "var(--band)", opacity: .2 }); });
svg.addEventListener("pointerup", e => { const i = index(e), a = Math.min(start, i), b = Math.max(start, i); box = null;
  if (b - a >= 6) show(a, b, null); else draw(); });
const week = Math.min(n, Math.round(7 * perDay));
function worst() { let best = 0, at = 0, sum = 0; for (let i = 0; i < n; i++) { sum += d.required[i] > d.peaker[i] ? 1 : 0;
  if (i >= week) sum -= d.required[i - week] > d.peaker[i - week] ? 1 : 0; if (sum > best) { best = sum; at = i; } } return Math.max(0, at - week + 1); }
const views = [["Everything", 0, n], ["Last 7 days", n - week, n], ["Week with most shortage", worst(), Math.min(n, worst() + week)]];
const buttons = views.map(([name, a, b]) => { const e = document.createElement("button"); e.textContent = name; e.onclick = () => show(a, b, e);
  document.getElementById("views").append(e, " "); return e; });
function show(a, b, button) { from = a; to = b; for (const e of buttons) e.setAttribute("aria-pressed", e === button); draw(); }
show(views[0][1], views[0][2], buttons[0]);
let seen = 0; new ResizeObserver(() => { const w = svg.clientWidth; if (w !== seen) { seen = w; draw(); } }).observe(svg);
