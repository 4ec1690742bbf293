// The graph of the page: groups that open and close, search, selection, and moving around by pointer and keys.
"use strict";
(() => {
  const host = document.getElementById("graph-view");
  const source = document.getElementById("data-graph");
  if (!host || !source) return;
  const data = JSON.parse(source.textContent);
  const { strings } = data;
  const find = (selector) => host.querySelector(selector);
  const view = find(".view"), canvas = find("canvas.main"), map = find("canvas.map"), tip = find(".tip");
  const aside = find("aside"), says = find(".says"), input = find("input"), list = find(".found");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const count = data.kinds.length;

  // --- the tree ---------------------------------------------------------------------------------------------------

  const tree = { children: [], rows: new Map(), width: data.width, height: data.height };
  for (let id = 0; id < count; id++) tree.children.push(data.children[id] ?? []);
  const reads = new Map(), readers = new Map();
  const add = (table, key, value) => {
    if (!table.has(key)) table.set(key, []);
    if (!table.get(key).includes(value)) table.get(key).push(value);
  };
  const pairs = (flat) => {
    const found = new Map();
    for (let i = 0; i < flat.length; i += 2) found.set(flat[i], flat[i + 1]);
    return found;
  };
  for (const [key, [cells, rows, flat, ins, outs]] of Object.entries(data.rows)) {
    const segments = [], items = tree.children[key];
    for (let i = 0; i < flat.length; i += 3) {
      segments.push([flat[i], flat[i + 1], flat[i + 2]]);
      const reader = items[flat[i + 1]];
      if (reader === undefined) continue;
      if (!tree.children[reader].length || data.kinds[reader] === "control") {
        add(reads, reader, flat[i + 2]);
        add(readers, flat[i + 2], reader);
      }
    }
    tree.rows.set(Number(key), { count: cells, rows, segments, ins: pairs(ins), outs: pairs(outs) });
  }
  const gives = new Map();
  data.values.source.forEach((id, value) => add(gives, id, value));
  const inOrder = [0];
  for (const id of inOrder) inOrder.push(...tree.children[id]);
  const sums = { ms: [...data.ms], macs: [...data.macs], bytes: [...data.bytes] };
  for (const id of [...inOrder].reverse()) {
    for (const name of ["ms", "macs", "bytes"]) {
      const child = tree.children[id].map((c) => sums[name][c]).filter((n) => n !== null);
      if (!child.length || (sums[name][id] && data.kinds[id] === "control")) continue;
      sums[name][id] = child.reduce((a, b) => a + b, sums[name][id] ?? 0);
    }
  }
  const isGroup = (id) => tree.children[id].length > 0;
  const around = (id) => {
    const found = [];
    for (let up = data.parent[id]; up > 0; up = data.parent[up]) found.push(up);
    return found;
  };

  // --- what is shown ----------------------------------------------------------------------------------------------

  const opened = new Set(data.opened);
  const scene = {
    data, picture: null, colors: null, selected: 0, hovered: 0, lit: new Set(), matches: new Set(), tint: null, ink: null,
  };
  const camera = { x: 0, y: 0, k: 1 };
  let boxOf = new Map(), waiting = false, scale = 1, moving = 0;

  const layOut = () => {
    scene.picture = Placement.picture(tree, opened);
    boxOf = new Map(scene.picture.boxes.map((box) => [box.id, box]));
  };
  // Where a whole drawing takes longer than a frame, the last one is moved along until the movement has ended.
  const last = document.createElement("canvas");
  let cost = 0, changed = true, lastCamera = null, later = 0;
  const paint = () => {
    waiting = false;
    if (!view.clientWidth) return;
    clearTimeout(later);
    if (cost > 24 && !changed && lastCamera) {
      GraphCanvas.drawMoved(canvas, last, lastCamera, camera, scene);
      later = setTimeout(redraw, 160);
    } else {
      const begin = performance.now();
      GraphCanvas.draw(canvas, camera, scene);
      cost = performance.now() - begin;
      changed = false;
      lastCamera = { ...camera };
      if (cost > 24) GraphCanvas.keep(canvas, last);
    }
    scale = GraphCanvas.drawMap(map, view, camera, scene);
  };
  const redraw = (moved = false) => {
    if (moved !== true) changed = true;
    if (!waiting) requestAnimationFrame(paint);
    waiting = true;
  };
  const recolor = () => {
    scene.colors = GraphCanvas.colorsOf(host, data.colors);
    scene.mapOf = null;
    tint();
    redraw();
  };
  const clamp = (n, low, high) => Math.min(high, Math.max(low, n));
  const fitting = () => Math.min(view.clientWidth / scene.picture.width, view.clientHeight / scene.picture.height);
  const least = () => Math.min(0.2, fitting() * 0.8);

  const moveTo = (x, y, k) => {
    const from = { ...camera }, begin = performance.now(), mine = ++moving;
    if (still.matches || document.hidden) {
      Object.assign(camera, { x, y, k });
      return redraw();
    }
    const step = (now) => {
      if (mine !== moving) return;
      const t = clamp((now - begin) / 180, 0, 1), e = t * (2 - t);
      camera.k = from.k * (k / from.k) ** e;
      const f = k === from.k ? e : (1 / camera.k - 1 / from.k) / (1 / k - 1 / from.k);
      camera.x = from.x + (x - from.x) * f;
      camera.y = from.y + (y - from.y) * f;
      redraw(true);
      if (t < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  };
  const fit = (now = false) => {
    const { width, height, boxes } = scene.picture;
    const shown = clamp(fitting(), now ? 0.3 : 0.001, 1.25); // at first large enough to see what it is
    let x = (width - view.clientWidth / shown) / 2;
    if (x > 0 && boxes.length) x = Math.max(0, boxes[0].x + boxes[0].w / 2 - view.clientWidth / shown / 2);
    const y = height * shown <= view.clientHeight ? (height - view.clientHeight / shown) / 2 : 0;
    moving++;
    if (now) Object.assign(camera, { x, y, k: shown });
    else moveTo(x, y, shown);
    redraw();
  };
  const zoom = (factor, px = view.clientWidth / 2, py = view.clientHeight / 2) => {
    const k = clamp(camera.k * factor, least(), 4);
    moving++;
    camera.x += px / camera.k - px / k;
    camera.y += py / camera.k - py / k;
    camera.k = k;
    redraw(true);
  };
  const pan = (dx, dy) => {
    moving++;
    camera.x += dx / camera.k;
    camera.y += dy / camera.k;
    redraw(true);
  };
  const center = (id, k = camera.k) => {
    const box = boxOf.get(id);
    if (!box) return;
    const w = view.clientWidth / k, h = view.clientHeight / k;
    moveTo(box.x + box.w / 2 - w / 2, box.h > h ? box.y - 8 / k : box.y + box.h / 2 - h / 2, k);
  };
  const show = (id) => {
    const box = boxOf.get(id), margin = 24 / camera.k;
    const w = view.clientWidth / camera.k, h = view.clientHeight / camera.k;
    const inside = box.x > camera.x + margin && box.x + box.w < camera.x + w - margin &&
      box.y > camera.y + margin && box.y + Math.min(box.h, h / 2) < camera.y + h - margin;
    if (!inside) center(id);
  };

  // --- selection --------------------------------------------------------------------------------------------------

  const text = (index) => strings[index] ?? "";
  const amount = (n, units, base = 1000) => {
    let k = 0;
    while (n >= base && k < units.length - 1) {
      n /= base;
      k++;
    }
    return `${k && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[k]}`.trim();
  };
  const bytes = (n) => amount(n, ["B", "kB", "MB", "GB", "TB"]);
  const times = (ms) => (ms >= 1 ? `${ms.toFixed(2)} ms` : `${(1000 * ms).toFixed(ms < 0.01 ? 2 : 1)} µs`);
  const share = (name, id) => (sums[name][0] ? ` (${((100 * sums[name][id]) / sums[name][0]).toFixed(1)}%)` : "");
  const numbers = (id) => {
    const rows = [];
    if (sums.ms[id] !== null) rows.push(["Time", times(sums.ms[id]) + share("ms", id)]);
    if (sums.macs[id]) rows.push(["MACs", amount(sums.macs[id], ["", "k", "M", "G", "T"]) + share("macs", id)]);
    if (sums.bytes[id]) rows.push(["Traffic", bytes(sums.bytes[id]) + share("bytes", id)]);
    return rows;
  };
  const types = (id) => {
    const found = (gives.get(id) ?? []).map((v) => text(data.values.type[v]));
    if (found.length) return found;
    return text(data.about[id]).split("\n").filter((row) => row.startsWith("\t")).map((row) => row.trim());
  };
  const facts = (id) => {
    const kind = data.kinds[id], rows = [];
    const node = kind === "node" || kind === "control";
    if (node && data.name[id]) rows.push(["Name", text(data.name[id])]);
    if (isGroup(id)) rows.push(["Nodes", String(data.size[id])]);
    if (!isGroup(id) || node) rows.push([node ? "Gives" : "Type", types(id).join("\n")]);
    rows.push(...numbers(id));
    if (data.scheme[id]) rows.push(["Scheme", text(data.scheme[id])]);
    if (data.weights[id]) rows.push(["Weights", text(data.weights[id])]);
    const about = text(data.about[id]).split("\n").filter((row) => row && !row.startsWith("\t"));
    if (about.length) rows.push([node ? "Attributes" : "Scope", about.join("\n")]);
    if (data.origin[id]) rows.push(["In the source", text(data.origin[id])]);
    if (data.rules[id]) rows.push(["Made by", text(data.rules[id])]);
    return rows.filter(([, value]) => value);
  };
  const element = (tag, content = "", props = {}) => {
    const made = Object.assign(document.createElement(tag), props);
    made.textContent = content;
    return made;
  };
  const jump = (label, id) => {
    const button = element("button", label, { type: "button", className: "go" });
    button.addEventListener("click", () => reveal(id));
    const item = element("li");
    item.append(button);
    return item;
  };
  const listed = (title, entries) => {
    if (!entries.length) return [];
    const rows = element("ul");
    rows.append(...entries.slice(0, 40).map(([label, id]) => jump(label, id)));
    if (entries.length > 40) rows.append(element("li", `and ${entries.length - 40} more`));
    return [element("h4", title), rows];
  };
  const label = (id) => text(data.title[id]);
  const details = () => {
    const id = scene.selected, about = element("dl", "", { className: "facts" });
    for (const [name, value] of id ? facts(id) : [["Nodes", String(data.size[0])], ...numbers(0)]) {
      const cell = element("dd");
      value.split("\n").forEach((row) => cell.append(element("div", row)));
      about.append(element("dt", name), cell);
    }
    const parts = [element("h3", id ? text(data.title[id]) : "The graph"), about];
    if (!id) {
      parts.push(find(".legend-template").content.cloneNode(true));
    } else if (isGroup(id)) {
      const button = element("button", opened.has(id) ? "Close" : "Open", { type: "button" });
      button.addEventListener("click", () => toggle(id));
      parts.splice(1, 0, button);
    }
    const from = (reads.get(id) ?? []).map((v) => [
      `${text(data.values.name[v]) || label(data.values.source[v])}: ${text(data.values.type[v])}`, data.values.source[v],
    ]);
    const to = [...new Set((gives.get(id) ?? []).flatMap((v) => readers.get(v) ?? []))].map((r) => [label(r), r]);
    aside.replaceChildren(...parts, ...listed("Reads", from), ...listed("Read by", to));
  };
  const nearby = (id) => {
    scene.lit = new Set([...(reads.get(id) ?? []), ...(gives.get(id) ?? [])]);
    if (isGroup(id) && id) {
      const rows = tree.rows.get(id);
      scene.lit = new Set([...rows.ins.keys(), ...rows.outs.keys()]);
    }
  };
  const select = (id) => {
    scene.selected = id;
    nearby(id);
    details();
    const more = facts(id).filter(([name]) => ["Name", "Gives", "Type", "Nodes", "Time"].includes(name));
    const state = isGroup(id) ? (opened.has(id) ? ", open" : ", closed") : "";
    says.textContent = id ? `${text(data.title[id])}${state}. ${more.map((row) => row.join(" ")).join(". ")}` : "";
    if (location.hash.startsWith("#item-")) history.replaceState(null, "", id ? `#item-${id}` : "#graph");
    redraw();
  };
  const reveal = (id) => {
    const closed = around(id).filter((up) => !opened.has(up));
    closed.forEach((up) => opened.add(up));
    if (closed.length) layOut();
    select(id);
    if (closed.length || camera.k < 0.5) center(id, Math.max(camera.k, 0.8));
    else show(id);
  };
  const toggle = (id) => {
    const before = boxOf.get(id);
    if (opened.has(id)) opened.delete(id);
    else opened.add(id);
    layOut();
    const now = boxOf.get(id);
    camera.x += now.x + now.w / 2 - before.x - before.w / 2;
    camera.y += now.y - before.y;
    select(id);
    if (now.y < camera.y || now.w * camera.k > view.clientWidth) {
      center(id, clamp((view.clientWidth - 30) / now.w, Math.min(camera.k, 0.35), camera.k));
    }
  };

  // --- moving by keys -----------------------------------------------------------------------------------------------

  const shownAs = (id) => {
    const chain = [id, ...around(id)];
    let shown = id;
    for (const up of chain) if (up !== id && !opened.has(up)) shown = up;
    return shown;
  };
  const neighbor = (direction) => {
    const id = scene.selected, box = boxOf.get(id);
    if (!box) return scene.picture.boxes.length ? scene.picture.boxes[0].id : 0;
    let options = [];
    if (direction === "down") options = (gives.get(id) ?? []).flatMap((v) => readers.get(v) ?? []);
    if (direction === "up") options = (reads.get(id) ?? []).map((v) => data.values.source[v]);
    if (isGroup(id) && direction === "down" && opened.has(id)) options = [tree.children[id][0]];
    else if (isGroup(id) && (direction === "down" || direction === "up")) {
      const rows = tree.rows.get(id);
      if (direction === "down") options = [...rows.outs.keys()].flatMap((v) => readers.get(v) ?? []);
      else options = [...rows.ins.keys()].map((v) => data.values.source[v]);
      options = options.filter((other) => !around(other).includes(id));
    }
    const shown = options.map(shownAs).filter((other) => other !== id && boxOf.has(other));
    if (shown.length) return shown[0];
    const cx = box.x + box.w / 2, cy = box.y + box.h / 2;
    let best = 0, least = Infinity;
    for (const other of scene.picture.boxes) {
      if (other.id === id || (other.open && !contains(other, box))) continue;
      const dx = other.x + other.w / 2 - cx, dy = (other.open ? other.y : other.y + other.h / 2) - cy;
      const [ahead, beside] = { left: [-dx, dy], right: [dx, dy], up: [-dy, dx], down: [dy, dx] }[direction];
      if (ahead > 4 && ahead + 2.5 * Math.abs(beside) < least) {
        least = ahead + 2.5 * Math.abs(beside);
        best = other.id;
      }
    }
    return best || id;
  };
  const contains = (a, b) => a.x <= b.x && a.y <= b.y && a.x + a.w >= b.x + b.w && a.y + a.h >= b.y + b.h;
  const ARROWS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
  view.addEventListener("keydown", (event) => {
    const { key } = event, id = scene.selected;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ARROWS[key] && event.shiftKey) {
      pan(key === "ArrowLeft" ? -80 : key === "ArrowRight" ? 80 : 0, key === "ArrowUp" ? -80 : key === "ArrowDown" ? 80 : 0);
    } else if (ARROWS[key]) {
      const next = neighbor(ARROWS[key]);
      if (next) {
        select(next);
        show(next);
      }
    } else if ((key === "Enter" || key === " ") && isGroup(id) && id) toggle(id);
    else if (key === "+" || key === "=") zoom(1.25);
    else if (key === "-") zoom(0.8);
    else if (key === "0" || key === "f") fit();
    else if (key === "/") input.focus();
    else if (key === "Home") {
      select(tree.children[0][0] ?? 0);
      show(scene.selected);
    } else if (key === "Escape" && host.classList.contains("full")) full();
    else if (key === "Escape" && id) select(data.parent[id] > 0 ? data.parent[id] : 0);
    else return;
    event.preventDefault();
  });

  // --- moving by pointer ---------------------------------------------------------------------------------------------

  const at = (px, py) => {
    const x = camera.x + px / camera.k, y = camera.y + py / camera.k, { boxes } = scene.picture;
    for (let i = boxes.length - 1; i >= 0; i--) {
      const b = boxes[i];
      if (x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h) return b;
    }
    return null;
  };
  const local = (event) => {
    const frame = view.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };
  const pointers = new Map();
  let dragged = 0, spread = 0;
  view.addEventListener("pointerdown", (event) => {
    if (event.target === map) return;
    pointers.set(event.pointerId, local(event));
    dragged = pointers.size > 1 ? 99 : 0;
    spread = 0;
    view.classList.add("active");
    if (event.pointerType !== "touch") view.setPointerCapture(event.pointerId);
    tip.hidden = true;
  });
  view.addEventListener("pointermove", (event) => {
    const now = local(event), before = pointers.get(event.pointerId);
    if (!before) return hover(event, now);
    pointers.set(event.pointerId, now);
    if (pointers.size === 1) {
      dragged += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (dragged > 3) pan(before[0] - now[0], before[1] - now[1]);
    } else if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      const size = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (spread) zoom(size / spread, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      pan((before[0] - now[0]) / 2, (before[1] - now[1]) / 2);
      spread = size;
    }
  });
  const lift = (event) => {
    if (!pointers.delete(event.pointerId) || event.type === "pointercancel" || dragged > 3) return;
    const box = at(...local(event));
    view.focus({ preventScroll: true });
    if (!box) return select(0);
    const heading = box.open && local(event)[1] < (box.y - camera.y) * camera.k + Math.max(24 * camera.k, 22);
    if (isGroup(box.id) && (!box.open || heading) && (box.id === scene.selected || !box.open)) toggle(box.id);
    else select(box.id);
  };
  view.addEventListener("pointerup", lift);
  view.addEventListener("pointercancel", lift);
  view.addEventListener("pointerleave", () => {
    tip.hidden = true;
    scene.hovered = 0;
    redraw();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!host.contains(event.target)) view.classList.remove("active");
  });
  view.addEventListener("focusout", () => view.classList.remove("active"));
  view.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && document.activeElement !== view && !host.classList.contains("full")) return;
      event.preventDefault();
      const size = event.deltaMode ? 30 : 1;
      zoom(Math.exp(-event.deltaY * size * (event.ctrlKey ? 0.01 : 0.0015)), ...local(event));
    },
    { passive: false },
  );
  const hover = (event, [px, py]) => {
    if (event.pointerType === "touch") return;
    const box = at(px, py), id = box && !box.open ? box.id : 0;
    if (id !== scene.hovered) {
      scene.hovered = id;
      redraw();
    }
    tip.hidden = !id;
    view.style.cursor = id ? "pointer" : "grab";
    if (!id) return;
    const rows = facts(id).filter(([name]) => name !== "Attributes").map(([name, value]) => `${name}: ${value.split("\n").slice(0, 4).join(", ")}`);
    tip.textContent = [text(data.title[id]), ...rows].join("\n");
    tip.style.left = `${clamp(px + 14, 0, Math.max(0, view.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${py + tip.offsetHeight + 24 > view.clientHeight ? Math.max(0, py - tip.offsetHeight - 10) : py + 16}px`;
  };
  const byMap = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const frame = map.getBoundingClientRect();
    camera.x = (event.clientX - frame.left) / scale - view.clientWidth / camera.k / 2;
    camera.y = (event.clientY - frame.top) / scale - view.clientHeight / camera.k / 2;
    moving++;
    redraw();
  };
  map.addEventListener("pointerdown", byMap);
  map.addEventListener("pointermove", byMap);

  // --- search ---------------------------------------------------------------------------------------------------------

  let index = null, results = [], active = -1;
  const search = () => {
    index ??= inOrder.slice(1).map((id) => {
      const tensors = (gives.get(id) ?? []).map((v) => `${text(data.values.name[v])} ${text(data.values.type[v])}`);
      return [id, [text(data.title[id]), text(data.name[id]), ...tensors, text(data.origin[id])].join(" ").toLowerCase()];
    });
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    results = words.length ? index.filter(([, all]) => words.every((word) => all.includes(word))).map(([id]) => id) : [];
    scene.matches = new Set(results.slice(0, 5000).map(shownAs));
    active = -1;
    list.replaceChildren(
      ...results.slice(0, 60).map((id, k) => {
        const item = element("li", "", { id: `found-${k}` });
        item.setAttribute("role", "option");
        item.append(element("span", text(data.title[id])), element("span", text(data.name[id]) || types(id)[0] || ""));
        item.addEventListener("pointerdown", (event) => event.preventDefault());
        item.addEventListener("click", () => choose(k));
        return item;
      }),
    );
    if (words.length) {
      const more = results.length > 60 ? `${results.length} found, the first 60 are listed` : `${results.length} found`;
      list.append(element("li", more, { className: "muted" }));
      says.textContent = more;
    }
    const closed = !words.length;
    list.hidden = closed;
    input.setAttribute("aria-expanded", String(!closed));
    redraw();
  };
  const mark = (k) => {
    active = k;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === k)));
    list.children[k]?.scrollIntoView({ block: "nearest" });
    if (k >= 0) input.setAttribute("aria-activedescendant", `found-${k}`);
    else input.removeAttribute("aria-activedescendant");
  };
  const choose = (k) => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    if (results[k] !== undefined) reveal(results[k]);
    view.focus({ preventScroll: true });
  };
  input.addEventListener("input", search);
  input.addEventListener("focus", () => input.value && search());
  input.addEventListener("blur", () => (list.hidden = true));
  input.addEventListener("keydown", (event) => {
    const last = Math.min(60, results.length) - 1;
    if (event.key === "ArrowDown") mark(active < last ? active + 1 : 0);
    else if (event.key === "ArrowUp") mark(active > 0 ? active - 1 : last);
    else if (event.key === "Enter") choose(Math.max(0, active));
    else if (event.key === "Escape") {
      input.value = "";
      search();
    } else return;
    event.preventDefault();
  });

  // --- buttons --------------------------------------------------------------------------------------------------------

  const again = () => {
    layOut();
    const shown = shownAs(scene.selected);
    select(boxOf.has(shown) ? shown : 0);
    fit();
  };
  const full = () => {
    host.classList.toggle("full");
    find(".full-window").setAttribute("aria-pressed", String(host.classList.contains("full")));
    view.focus({ preventScroll: true });
  };
  const on = (selector, action) => find(selector).addEventListener("click", action);
  on(".open-all", () => {
    inOrder.filter((id) => id && isGroup(id)).forEach((id) => opened.add(id));
    again();
  });
  on(".close-all", () => {
    opened.clear();
    again();
  });
  on(".zoom-in", () => zoom(1.4));
  on(".zoom-out", () => zoom(1 / 1.4));
  on(".fit", () => fit());
  on(".full-window", full);

  const coloring = find("select");
  const tint = () => {
    const name = coloring.value, values = sums[name];
    scene.tint = scene.ink = null;
    if (!values) return;
    const parse = (color) => color.match(/[\d.]+/g).slice(0, 3).map(Number);
    const [cold, hot] = [parse(scene.colors.cold), parse(scene.colors.hot)];
    const most = Math.max(...data.kinds.map((kind, id) => (isGroup(id) ? 0 : (values[id] ?? 0)))) || 1;
    const level = values.map((n) => Math.sqrt(Math.min(1, (n ?? 0) / most)));
    const mixed = level.map((t) => cold.map((c, i) => Math.round(c + (hot[i] - c) * t)));
    scene.tint = mixed.map((c) => `rgb(${c.join(" ")})`);
    scene.ink = mixed.map(([r, g, b]) => (0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#10151f" : "#ffffff"));
  };
  for (const option of coloring.options) option.hidden = Boolean(sums[option.value]) && !sums[option.value][0];
  coloring.addEventListener("change", recolor);

  // --- start ----------------------------------------------------------------------------------------------------------

  host.classList.add("live");
  layOut();
  recolor();
  details();
  fit(true);
  let width = view.clientWidth;
  new ResizeObserver(() => {
    if (!width && view.clientWidth) fit(true);
    width = view.clientWidth;
    redraw();
  }).observe(view);
  document.addEventListener("themechange", recolor);
  const followed = () => {
    const id = Number(/^#item-(\d+)$/.exec(location.hash)?.[1]);
    if (!id || id >= count) return;
    host.scrollIntoView({ block: "nearest" });
    reveal(id);
  };
  addEventListener("hashchange", followed);
  followed();
  // For tests and the console: what is shown.
  host.graph = { data, scene, camera, opened, boxes: () => scene.picture.boxes, reveal, paint, layOut };
})();
