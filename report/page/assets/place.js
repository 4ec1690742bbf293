// Coordinates for the rows of a group: the same steps as in report/drawing/place.py and picture.py, so that a graph
// looks the same when it is laid out again after a group was opened or closed. A test compares both.
"use strict";
const Placement = (() => {
  const GAP_X = 26, GAP_LINE = 12, GAP_Y = 28, TRACK = 9;
  const SWEEPS = 7, STEEP = 0.1, MOST_STEEP = 40;
  const TALL = 900, RATIO = 1.5, LEAST_WIDTH = 160;
  const BOX = 4, LINE = 1, TRUNK = 8;
  const PAD = 14, HEAD = 24;

  // rows: {count, rows: [[cell]], segments: [[upper, lower, value]], ins: Map, outs: Map}
  // width, height: per cell; ports: Map of cell to {ins: Map, outs: Map}
  const place = (rows, width, height, ports, tall = TALL) => {
    const [upper, lower] = ends(rows, width, ports);
    const x = sideways(rows, width, upper, lower, ports);
    const [tops, deep] = downwards(rows, x, height, upper, lower);
    const cuts = cutsOf(rows, x, width, tops, deep, tall);
    return folded(rows, x, width, height, tops, deep, cuts, upper, lower);
  };

  const spread = (k, count, width) => (k - (count - 1) / 2) * Math.min(18, (width - 16) / count);

  const ends = ({ count, rows, segments }, width, ports) => {
    const slot = new Int32Array(count);
    for (const row of rows) row.forEach((cell, k) => (slot[cell] = k));
    const upper = new Float64Array(segments.length), lower = new Float64Array(segments.length);
    const leaving = Array.from({ length: count }, () => new Map());
    const arriving = Array.from({ length: count }, () => []);
    segments.forEach(([a, b, value], s) => {
      if (!leaving[a].has(value)) leaving[a].set(value, []);
      leaving[a].get(value).push(s);
      arriving[b].push(s);
    });
    for (let cell = 0; cell < count; cell++) {
      if (!width[cell]) continue;
      const port = ports.get(cell);
      const groups = [...leaving[cell]].map(([value, list]) => {
        let total = 0;
        for (const s of list) total += slot[segments[s][1]];
        return [total, value, list];
      });
      groups.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      groups.forEach(([, value, list], k) => {
        const at = port?.outs.has(value) ? port.outs.get(value) : spread(k, groups.length, width[cell]);
        for (const s of list) upper[s] = at;
      });
      const came = arriving[cell];
      came.sort((s, t) => slot[segments[s][0]] - slot[segments[t][0]] || s - t);
      came.forEach((s, k) => {
        const value = segments[s][2];
        lower[s] = port?.ins.has(value) ? port.ins.get(value) : spread(k, came.length, width[cell]);
      });
    }
    return [upper, lower];
  };

  const sideways = ({ count, rows, segments }, width, upper, lower, ports) => {
    const x = new Float64Array(count);
    const up = Array.from({ length: count }, () => []), down = Array.from({ length: count }, () => []);
    segments.forEach(([a, b], s) => {
      const bends = (width[a] ? 0 : 1) + (width[b] ? 0 : 1);
      const pull = bends === 2 ? TRUNK : bends ? LINE : BOX;
      const offset = (ports.has(a) ? 0 : upper[s]) - (ports.has(b) ? 0 : lower[s]);
      up[b].push([a, offset, pull]);
      down[a].push([b, -offset, pull]);
    });
    const offsets = rows.map((row) => {
      const offset = new Float64Array(row.length);
      for (let k = 1; k < row.length; k++) {
        const a = width[row[k - 1]], b = width[row[k]];
        offset[k] = offset[k - 1] + a / 2 + b / 2 + (a && b ? GAP_X : GAP_LINE);
      }
      row.forEach((cell, k) => (x[cell] = offset[k] - offset[row.length - 1] / 2));
      return offset;
    });
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
      const rising = sweep % 2 === 1;
      for (let i = 0; i < rows.length; i++) {
        const r = rising ? rows.length - 1 - i : i;
        const row = rows[r], wish = [], trust = [];
        row.forEach((cell, k) => {
          const near = rising ? down[cell] : up[cell];
          wish.push((near.length ? median(near.map(([o, d, p]) => [x[o] + d, p])) : x[cell]) - offsets[r][k]);
          const weight = width[cell] ? 4 : 1;
          trust.push(near.length ? weight : weight * 0.02);
        });
        const fit = isotonic(wish, trust);
        row.forEach((cell, k) => (x[cell] = fit[k] + offsets[r][k]));
      }
    }
    return x;
  };

  const median = (points) => {
    if (points.length === 1) return points[0][0];
    points.sort((a, b) => a[0] - b[0]);
    let half = 0;
    for (const point of points) half += point[1];
    half /= 2;
    let seen = 0;
    for (let k = 0; k < points.length; k++) {
      seen += points[k][1];
      if (seen === half) return (points[k][0] + points[k + 1][0]) / 2;
      if (seen > half) return points[k][0];
    }
    return points[points.length - 1][0];
  };

  const isotonic = (wish, weight) => {
    const blocks = [];
    wish.forEach((w, i) => {
      let mean = w, total = weight[i], size = 1;
      while (blocks.length && blocks[blocks.length - 1][0] > mean) {
        const [m, t, n] = blocks.pop();
        const both = t + total;
        mean = (m * t + mean * total) / both;
        total = both;
        size += n;
      }
      blocks.push([mean, total, size]);
    });
    return blocks.flatMap(([mean, , size]) => new Array(size).fill(mean));
  };

  const rowOf = ({ count, rows }) => {
    const found = new Int32Array(count);
    rows.forEach((row, r) => row.forEach((cell) => (found[cell] = r)));
    return found;
  };

  const downwards = (order, x, height, upper, lower) => {
    const { rows, segments } = order;
    const at = rowOf(order), wide = new Float64Array(rows.length);
    segments.forEach(([a, b], s) => {
      wide[at[a]] = Math.max(wide[at[a]], Math.abs(x[a] + upper[s] - x[b] - lower[s]));
    });
    const tops = [], deep = [];
    let y = 0;
    rows.forEach((row, r) => {
      let size = 0;
      for (const cell of row) size = Math.max(size, height[cell]);
      tops.push(y);
      deep.push(size);
      if (row.length && r + 1 < rows.length && rows[r + 1].length) {
        y += size + (size || r ? GAP_Y : GAP_Y / 2) + Math.floor(Math.min(MOST_STEEP, STEEP * wide[r]));
      } else {
        y += size;
      }
    });
    return [tops, deep];
  };

  const cutsOf = (order, x, width, tops, deep, tall) => {
    const { rows, segments } = order;
    const last = rows.length - 1;
    const total = tops[last] + deep[last];
    let widest = 0;
    for (const row of rows) {
      if (!row.length) continue;
      const start = row[0], end = row[row.length - 1];
      widest = Math.max(widest, x[end] + width[end] / 2 - x[start] + width[start] / 2);
    }
    const columns = Math.floor(Math.sqrt((RATIO * total) / Math.max(widest, LEAST_WIDTH)) + 0.5);
    if (total <= tall || columns < 2) return [];
    const cross = new Int32Array(rows.length + 1), at = rowOf(order);
    for (const [a] of segments) cross[at[a] + 1]++;
    const cuts = [], step = total / columns;
    for (let k = 1; k < columns; k++) {
      let best = 0, cost = 0;
      for (let r = (cuts.length ? cuts[cuts.length - 1] : 1) + 1; r < rows.length - 1; r++) {
        const away = Math.abs(tops[r] - step * k) / step;
        if (away <= 0.4 && (!best || cross[r] + 12 * away < cost)) {
          best = r;
          cost = cross[r] + 12 * away;
        }
      }
      if (best) cuts.push(best);
    }
    return cuts;
  };

  const folded = (order, x, width, height, tops, deep, cuts, upper, lower) => {
    const { count, rows, segments, ins, outs } = order;
    const first = [0, ...cuts], n = first.length;
    const column = new Int32Array(rows.length);
    for (const cut of cuts) for (let r = cut; r < rows.length; r++) column[r]++;
    const at = rowOf(order);
    const left = new Float64Array(n), right = new Float64Array(n), known = new Array(n).fill(false);
    rows.forEach((row, r) => {
      const k = column[r];
      for (const cell of row) {
        const a = x[cell] - width[cell] / 2, b = x[cell] + width[cell] / 2;
        left[k] = known[k] ? Math.min(left[k], a) : a;
        right[k] = known[k] ? Math.max(right[k], b) : b;
        known[k] = true;
      }
    });
    const across = Array.from({ length: n }, () => []);
    const crossing = new Uint8Array(segments.length);
    segments.forEach(([a, b], s) => {
      if (column[at[b]] !== column[at[a]]) {
        crossing[s] = 1;
        across[column[at[a]]].push(s);
      }
    });
    const track = new Int32Array(segments.length), tracks = new Int32Array(n);
    across.forEach((list, k) => {
      const start = (s) => x[segments[s][0]] + upper[s];
      const places = new Map();
      for (const s of list.sort((s, t) => start(t) - start(s) || s - t)) {
        if (!places.has(start(s))) places.set(start(s), places.size);
        track[s] = places.get(start(s));
      }
      tracks[k] = places.size;
    });
    const shift = new Float64Array(n);
    let total = 0, roof = 0;
    for (let k = 0; k < n; k++) {
      shift[k] = total - left[k];
      total += right[k] - left[k];
      if (k < cuts.length) {
        total += 2 * GAP_X + TRACK * tracks[k];
        roof = Math.max(roof, GAP_Y + TRACK * tracks[k]);
      }
    }
    const atX = new Float64Array(count), atY = new Float64Array(count);
    const base = new Float64Array(rows.length), bottom = new Float64Array(n);
    let tallest = 0;
    rows.forEach((row, r) => {
      const k = column[r];
      base[r] = roof + tops[r] - tops[first[k]];
      bottom[k] = base[r] + deep[r];
      for (const cell of row) {
        atX[cell] = Math.floor(x[cell] + shift[k] + 0.5);
        atY[cell] = base[r] + Math.floor((deep[r] - height[cell]) / 2);
      }
    });
    bottom.forEach((end, k) => {
      tallest = Math.max(tallest, end + (k < cuts.length ? GAP_Y + TRACK * tracks[k] : 0));
    });
    for (const cell of ins.values()) atY[cell] = 0;
    for (const cell of outs.values()) atY[cell] = tallest;
    const lines = segments.map(([a, b], s) => {
      const k = column[at[a]];
      const ax = Math.floor(atX[a] + upper[s] + 0.5), bx = Math.floor(atX[b] + lower[s] + 0.5);
      const ay = atY[a] + height[a], by = atY[b];
      let points = [[ax, ay], [ax, base[at[a]] + deep[at[a]]], [bx, base[at[b]]], [bx, by]];
      if (crossing[s]) {
        const gutter = Math.floor(shift[k] + right[k] + GAP_X + TRACK * (track[s] + 0.5));
        const below = bottom[k] + GAP_Y / 2 + TRACK * track[s];
        const above = roof - GAP_Y / 2 - TRACK * (tracks[k] - 1 - track[s]);
        points = [[ax, ay], [ax, below], [gutter, below], [gutter, above], [bx, above], [bx, by]];
      }
      return points.filter(([u, v], i) => !i || u !== points[i - 1][0] || v !== points[i - 1][1]);
    });
    return { x: atX, y: atY, lines, width: 2 * Math.ceil(total / 2), height: tallest };
  };

  // The places of all boxes and lines. tree: {children: [[id]], rows: Map of id to rows, width, height: of closed boxes}
  // opened: Set of ids. Gives {boxes: [{id, x, y, w, h, open}], lines: [{value, points, ends}], width, height}.
  const picture = (tree, opened) => {
    const shown = [0];
    for (const group of shown) {
      for (const child of tree.children[group]) if (tree.children[child]?.length && opened.has(child)) shown.push(child);
    }
    const placed = new Map();
    const size = (id) => {
      const inner = placed.get(id);
      if (!inner) return [tree.width[id], tree.height[id]];
      return [Math.max(inner.width + 2 * PAD, tree.width[id]), inner.height + HEAD + 2 * PAD];
    };
    for (const group of [...shown].reverse()) {
      const rows = tree.rows.get(group);
      const width = new Float64Array(rows.count), height = new Float64Array(rows.count), ports = new Map();
      tree.children[group].forEach((child, cell) => {
        [width[cell], height[cell]] = size(child);
        const inner = placed.get(child);
        if (!inner) return;
        const own = tree.rows.get(child), left = (width[cell] - inner.width) / 2 - width[cell] / 2;
        const shifted = (ends) => new Map([...ends].map(([value, c]) => [value, inner.x[c] + left]));
        ports.set(cell, { ins: shifted(own.ins), outs: shifted(own.outs) });
      });
      placed.set(group, place(rows, width, height, ports));
    }
    const corner = new Map([[0, [PAD, PAD]]]), boxes = [], lines = [];
    for (const group of shown) {
      const own = placed.get(group), rows = tree.rows.get(group), [left, top] = corner.get(group);
      const items = tree.children[group];
      items.forEach((child, cell) => {
        const [w, h] = size(child), inner = placed.get(child);
        const x = left + own.x[cell] - w / 2, y = top + own.y[cell];
        if (inner) corner.set(child, [x + (w - inner.width) / 2, y + HEAD + PAD]);
        boxes.push({ id: child, x, y, w, h, open: Boolean(inner) });
      });
      const entering = new Set(rows.ins.values()), leaving = new Set(rows.outs.values());
      rows.segments.forEach(([a, b, value], s) => {
        const points = own.lines[s].map(([x, y]) => [left + x, top + y]);
        if (entering.has(a) && group) points.unshift([points[0][0], top - HEAD - PAD]);
        if (leaving.has(b) && group) points.push([points[points.length - 1][0], top + own.height + PAD]);
        lines.push({ value, points, ends: b < items.length });
      });
    }
    const root = placed.get(0);
    return { boxes, lines, width: root.width + 2 * PAD, height: root.height + 2 * PAD };
  };

  return { place, picture };
})();
