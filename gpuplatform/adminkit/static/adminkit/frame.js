/* What the head of each page can do: light or dark by choice, kept by this browser, and how the platform is,
   asked for beside the page and not while its tab is hidden. Loaded before the page is drawn, so that it does
   not flash in the other scheme. */
"use strict";
(() => {
  const KEY = "gpu-platform-scheme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const kept = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;  // The browser keeps nothing for pages: the system's choice it is.
    }
  };
  const isDark = () => (root.dataset.scheme ? root.dataset.scheme === "dark" : system.matches);

  if (["light", "dark"].includes(kept())) root.dataset.scheme = kept();

  document.addEventListener("DOMContentLoaded", () => {
    // On a phone the navigation is a strip: where one is stands in sight.
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
      const wanted = isDark() ? "light" : "dark";
      const isUsual = (wanted === "dark") === system.matches;
      try {
        if (isUsual) localStorage.removeItem(KEY);
        else localStorage.setItem(KEY, wanted);
      } catch { /* It holds for this page then. */ }
      if (isUsual) delete root.dataset.scheme;
      else root.dataset.scheme = wanted;
      name();
    });
  });

  // A browser leaves a box of many lines half out of sight when a key leads to it: its first line is seen.
  document.addEventListener("focusin", ({ target }) => {
    if (target.matches("textarea")) target.scrollIntoView({ block: "nearest" });
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.classList.contains("health-badge")) event.preventDefault();
  });
})();
