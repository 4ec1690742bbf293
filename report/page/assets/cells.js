// Filters, sorts and opens the cells of a report; the page is complete without it.
"use strict";
(() => {
  const list = document.querySelector(".cells");
  const cells = [...list.querySelectorAll(".cell")];
  const search = document.getElementById("search");
  const sort = document.getElementById("sort");
  const found = document.getElementById("found");
  const buttons = [...document.querySelectorAll(".counts button")];
  const texts = cells.map((cell) => cell.dataset.search.toLowerCase());
  const numbers = cells.map((cell) => JSON.parse(cell.dataset.sort));
  let status = "";

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    cells.forEach((cell, i) => {
      const isShown = (!status || cell.dataset.status === status) && words.every((word) => texts[i].includes(word));
      cell.hidden = !isShown;
      count += isShown;
    });
    found.textContent = count === cells.length ? `${count} shown` : `${count} of ${cells.length} shown`;
  };

  const order = () => {
    const key = sort.value;
    const value = (i) => (key === "order" ? i : numbers[i][key]);
    const indices = cells.map((_, i) => i);
    indices.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b; // what is unknown comes last
      return (typeof x === "string" ? (x < y ? -1 : x > y) : x - y) || a - b;
    });
    list.append(...indices.map((i) => cells[i]));
  };

  const reveal = () => {
    const cell = cells.find((c) => `#${c.id}` === location.hash);
    if (!cell) return;
    if (cell.hidden) {
      search.value = "";
      choose("");
    }
    cell.open = true;
    cell.scrollIntoView({ block: "start" });
    cell.querySelector("summary").focus({ preventScroll: true });
  };

  const choose = (name) => {
    status = name;
    buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.status === name)));
    filter();
  };

  const copy = async (button) => {
    const text = button.parentElement.querySelector("pre").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.parentElement.querySelector("pre")); // a file from disk may not copy
      button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };

  document.querySelector(".filters").hidden = false;
  buttons.forEach((b) => b.addEventListener("click", () => choose(status === b.dataset.status ? "" : b.dataset.status)));
  search.addEventListener("input", filter);
  sort.addEventListener("change", order);
  list.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });
  list.querySelectorAll("button.copy").forEach((b) => (b.hidden = false));
  addEventListener("hashchange", reveal);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && document.activeElement === search) {
      search.value = "";
      filter();
    }
  });
  filter();
  reveal();
})();
