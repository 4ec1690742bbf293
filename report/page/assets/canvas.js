// Draws a placed graph on a canvas: only what is visible, and only as much text as can be read.
"use strict";
const GraphCanvas = (() => {
  const TEXT = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
  const READABLE = 0.55, TITLES = 0.16, PLAIN = 0.1;

  // The colors of the style sheet, as they are now.
  const colorsOf = (host, names) => {
    const probe = document.createElement("i");
    host.append(probe);
    const pair = (name) => {
      probe.className = name;
      const style = getComputedStyle(probe);
      return [style.fill, style.stroke];
    };
    const root = getComputedStyle(host);
    const variable = (name) => {
      probe.className = "";
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const found = {
      boxes: names.map(pair), line: pair("line")[1], group: pair("group"), font: root.fontFamily || TEXT,
      fg: variable("fg"), muted: variable("muted"), card: variable("card"), accent: variable("accent"),
      cold: variable("accent-soft"), hot: variable("bad"),
    };
    probe.remove();
    return found;
  };

  const pathOf = (path, points) => {
    path.moveTo(points[0][0], points[0][1]);
    for (let i = 1; i < points.length; i++) {
      const [x, y] = points[i - 1], [u, v] = points[i];
      if (x !== u && y !== v) {
        const middle = (y + v) / 2;
        path.bezierCurveTo(x, middle, u, middle, u, v);
        continue;
      }
      const next = points[i + 1];
      const turns = next && (x === u) !== (next[0] === u) && (next[0] === u || next[1] === v);
      if (turns) path.arcTo(u, v, next[0], next[1], Math.min(7, Math.abs(next[0] - u) + Math.abs(next[1] - v)));
      else path.lineTo(u, v);
    }
  };

  const boundsOf = (points) => {
    let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
    for (const [x, y] of points) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    return [left, top, right, bottom];
  };

  const rounded = (ctx, b, radius) => {
    ctx.beginPath();
    ctx.roundRect(b.x, b.y, b.w, b.h, radius);
  };

  // What is seen of the picture. scene: {picture, data, colors, selected, lit: Set of values, hovered, matches: Set,
  // tint: null, or for each id the color of its box}; camera: {x, y, k}.
  const draw = (canvas, camera, scene) => {
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const { picture, data, colors } = scene, { x, y, k } = camera;
    const ctx = canvas.getContext("2d", { alpha: false });
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = colors.card;
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    ctx.setTransform(k * ratio, 0, 0, k * ratio, -x * k * ratio, -y * k * ratio);
    const left = x - 2, top = y - 2, right = x + width / k + 2, bottom = y + height / k + 2;
    const seen = (b) => b.x < right && b.x + b.w > left && b.y < bottom && b.y + b.h > top;

    const groups = [], boxes = [];
    const speck = 0.8 / k; // smaller ones are not seen
    for (const b of picture.boxes) {
      if (seen(b) && (b.w > speck || b.h > speck)) (b.open ? groups : boxes).push(b);
    }
    for (const b of groups) {
      if (b.h * k < 6 && scene.selected !== b.id) {
        ctx.fillStyle = colors.group[1];
        ctx.fillRect(b.x, b.y, b.w, b.h);
        continue;
      }
      rounded(ctx, b, 10);
      ctx.fillStyle = colors.group[0];
      ctx.fill();
      ctx.strokeStyle = scene.selected === b.id ? colors.accent : colors.group[1];
      ctx.lineWidth = (scene.selected === b.id ? 2.5 : 1) / Math.min(1, k * 1.5);
      ctx.setLineDash(["control", "body"].includes(data.kinds[b.id]) ? [6 / k, 3 / k] : []);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    const dot = (k < PLAIN / 2 ? 8 : 1.5) / k; // shorter lines are not seen
    const plain = new Path2D(), lit = new Path2D(), arrows = new Path2D(), litArrows = new Path2D();
    for (const line of picture.lines) {
      const [l, t, r, d] = (line.bounds ??= boundsOf(line.points));
      if (l > right || r < left || t > bottom || d < top || (r - l < dot && d - t < dot)) continue;
      const glows = scene.lit.has(line.value);
      if (k < PLAIN && !glows) {
        const path = plain;
        path.moveTo(...line.points[0]);
        for (let i = 1; i < line.points.length; i++) path.lineTo(line.points[i][0], line.points[i][1]);
      } else {
        pathOf(glows ? lit : plain, line.points);
      }
      if (line.ends && k > 0.3) {
        const [u, v] = line.points[line.points.length - 1], path = glows ? litArrows : arrows;
        path.moveTo(u - 3, v - 6);
        path.lineTo(u + 3, v - 6);
        path.lineTo(u, v);
      }
    }
    ctx.strokeStyle = ctx.fillStyle = colors.line;
    ctx.lineWidth = 1.2 / Math.min(1, k * 2);
    ctx.stroke(plain);
    ctx.fill(arrows);
    if (scene.lit.size) {
      ctx.strokeStyle = ctx.fillStyle = colors.accent;
      ctx.lineWidth = 2.2 / Math.min(1, k * 2);
      ctx.stroke(lit);
      ctx.fill(litArrows);
    }
    drawBoxes(ctx, boxes, k, scene);
    drawHeadings(ctx, groups, k, left, top, scene);
  };

  // Keeps what is drawn, and draws it again for a camera that has moved.
  const keep = (canvas, copy) => {
    copy.width = canvas.width;
    copy.height = canvas.height;
    copy.getContext("2d", { alpha: false }).drawImage(canvas, 0, 0);
  };
  const drawMoved = (canvas, copy, from, to, scene) => {
    const ctx = canvas.getContext("2d", { alpha: false }), ratio = devicePixelRatio || 1, zoom = to.k / from.k;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = scene.colors.card;
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    const x = (from.x - to.x) * to.k * ratio, y = (from.y - to.y) * to.k * ratio;
    ctx.drawImage(copy, x, y, copy.width * zoom, copy.height * zoom);
  };

  const drawBoxes = (ctx, boxes, k, scene) => {
    const { data, colors } = scene;
    const marked = (b) => scene.selected === b.id || scene.hovered === b.id || scene.matches.has(b.id);
    if (k < PLAIN) {
      const byColor = new Map();
      for (const b of boxes) {
        const color = scene.tint ? scene.tint[b.id] : colors.boxes[data.color[b.id]][k < PLAIN / 2 ? 1 : 0];
        if (!byColor.has(color)) byColor.set(color, []);
        byColor.get(color).push(b);
      }
      for (const [color, list] of byColor) {
        ctx.fillStyle = color;
        for (const b of list) ctx.fillRect(b.x, b.y, b.w, b.h);
      }
    }
    for (const b of boxes) {
      if (k < PLAIN && !marked(b)) continue;
      const [fill, stroke] = colors.boxes[data.color[b.id]];
      ctx.fillStyle = scene.tint ? scene.tint[b.id] : fill;
      const kind = data.kinds[b.id], radius = kind === "input" || kind === "output" ? 14 : 6;
      rounded(ctx, b, radius);
      ctx.fill();
      ctx.strokeStyle = marked(b) ? colors.accent : stroke;
      ctx.lineWidth = (scene.selected === b.id ? 3 : marked(b) ? 2 : 1) / Math.min(1, k * 1.5);
      ctx.stroke();
      if (data.children[b.id]) {
        ctx.lineWidth = 1;
        rounded(ctx, { x: b.x + 3, y: b.y + 3, w: b.w - 6, h: b.h - 6 }, radius - 2);
        ctx.stroke();
      }
    }
    ctx.textBaseline = "alphabetic";
    const { strings } = data;
    if (k >= READABLE) {
      ctx.textAlign = "left";
      for (const [bold, from, to] of [[true, 0, 1], [false, 1, 3]]) {
        ctx.font = `${bold ? 600 : 400} 11px ${TEXT}`;
        for (const b of boxes) {
          let y = b.y + 17 + (bold ? 0 : 14);
          ctx.fillStyle = bold || scene.tint ? inkOn(scene, b.id) : colors.muted;
          for (const line of data.lines[b.id].slice(from, to)) {
            if (!line) continue;
            ctx.fillText(strings[line], b.x + 10, y, b.w - 18);
            y += 14;
          }
          if (bold && data.children[b.id]) ctx.fillText("+", b.x + b.w - 18, b.y + 18);
        }
      }
    } else if (k >= TITLES) {
      ctx.textAlign = "center";
      for (const b of boxes) {
        const title = strings[data.lines[b.id][0]];
        const size = Math.min(b.h * 0.5, ((b.w - 8) / title.length) * 1.9, 13 / k);
        if (size * k < 4) continue;
        ctx.font = `600 ${size}px ${TEXT}`;
        ctx.fillStyle = inkOn(scene, b.id);
        ctx.fillText(title, b.x + b.w / 2, b.y + b.h / 2 + size * 0.36, b.w - 8);
      }
    }
  };

  const inkOn = (scene, id) => (scene.tint ? scene.ink[id] : scene.colors.fg);

  // The heading of a group stays in sight while any of the group is.
  const drawHeadings = (ctx, groups, k, left, top, scene) => {
    const { data, colors } = scene;
    ctx.textAlign = "left";
    ctx.lineJoin = "round";
    let stuck = 0;
    for (const b of groups) {
      const title = `− ${data.strings[data.title[b.id]]}`;
      const size = Math.max(Math.min(12, 12 / k), Math.min(13 / k, ((b.w - 20) / title.length) * 1.7, 36));
      if (size * k < 6) continue;
      const x = Math.max(b.x, Math.min(left + 4, b.x + b.w - title.length * size * 0.6)) + 10;
      const stays = b.y < top && b.y + b.h > top + (stuck + 3) * (size + 5);
      const y = (stays ? top + 2 + stuck++ * (size + 5) : b.y) + size + 4;
      ctx.font = `600 ${size}px ${TEXT}`;
      ctx.strokeStyle = colors.card;
      ctx.lineWidth = size * 0.35;
      ctx.strokeText(title, x, y, Math.max(20, b.w - 20));
      ctx.fillStyle = scene.selected === b.id ? colors.accent : colors.muted;
      ctx.fillText(title, x, y, Math.max(20, b.w - 20));
    }
  };

  // The whole picture, small, and what of it is seen.
  const drawMap = (canvas, view, camera, scene) => {
    const { picture, colors } = scene, most = Math.min(150, view.clientWidth * 0.3);
    const scale = Math.min(most / picture.width, 130 / picture.height);
    const fits = camera.k * picture.width <= view.clientWidth && camera.k * picture.height <= view.clientHeight;
    canvas.hidden = fits;
    if (fits) return scale;
    const w = Math.max(8, Math.round(picture.width * scale)), h = Math.max(8, Math.round(picture.height * scale));
    if (scene.mapOf !== picture || canvas.width !== w) {
      scene.mapOf = picture;
      canvas.width = w;
      canvas.height = h;
      const ctx = canvas.getContext("2d", { willReadFrequently: true });
      ctx.clearRect(0, 0, w, h);
      for (const b of picture.boxes) {
        ctx.fillStyle = b.open ? colors.group[0] : colors.boxes[scene.data.color[b.id]][1];
        ctx.fillRect(b.x * scale, b.y * scale, Math.max(1, b.w * scale), Math.max(1, b.h * scale));
      }
      scene.mapImage = ctx.getImageData(0, 0, w, h);
    }
    const ctx = canvas.getContext("2d", { willReadFrequently: true });
    ctx.putImageData(scene.mapImage, 0, 0);
    ctx.strokeStyle = colors.accent;
    ctx.lineWidth = 1.5;
    const { x, y, k } = camera;
    ctx.strokeRect(x * scale, y * scale, (view.clientWidth / k) * scale, (view.clientHeight / k) * scale);
    return scale;
  };

  return { colorsOf, draw, drawMap, drawMoved, keep };
})();
