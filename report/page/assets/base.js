// The switch between light and dark: first what the system says, then what the reader has chosen.
"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const key = "minnow-theme";
  const stored = () => {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // a file opened from disk may have no storage
    }
  };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colors`);
    document.dispatchEvent(new Event("themechange"));
  };
  if (["dark", "light"].includes(stored())) root.dataset.theme = stored();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(key, root.dataset.theme);
    } catch {
      // only this view has the choice then
    }
    show();
  });
  system.addEventListener("change", show);
  show();
})();
