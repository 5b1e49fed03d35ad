/* The header of each page: the color scheme, stored in the browser, and the health badge, which is not
   refreshed while the tab is hidden. The script runs before the page is rendered, so that the scheme does
   not flicker. */
"use strict";
(() => {
  const KEY = "gpu-platform-scheme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;  // Storage is disabled: use the scheme of the system.
    }
  };
  const isDark = () => (root.dataset.scheme ? root.dataset.scheme === "dark" : system.matches);

  if (["light", "dark"].includes(stored())) root.dataset.scheme = stored();

  document.addEventListener("DOMContentLoaded", () => {
    // On small screens, the navigation scrolls horizontally: scroll it to the current page.
    const nav = document.querySelector(".nav");
    const here = nav && nav.querySelector(".on");
    if (here) nav.scrollLeft = here.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
    const button = document.querySelector("[data-scheme]:not(html)");
    if (!button) return;
    const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    name();
    button.hidden = false;
    system.addEventListener("change", name);
    button.addEventListener("click", () => {
      const scheme = isDark() ? "light" : "dark";
      const isDefault = (scheme === "dark") === system.matches;
      try {
        if (isDefault) localStorage.removeItem(KEY);
        else localStorage.setItem(KEY, scheme);
      } catch { /* Storage is disabled: applies to this page only. */ }
      if (isDefault) delete root.dataset.scheme;
      else root.dataset.scheme = scheme;
      name();
    });
  });

  // Browsers can leave a focused textarea partly outside of the window: scroll it into view.
  document.addEventListener("focusin", ({ target }) => {
    if (target.matches("textarea")) target.scrollIntoView({ block: "nearest" });
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.classList.contains("health-badge")) event.preventDefault();
  });
})();
