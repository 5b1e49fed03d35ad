/* The menus of filters: Escape closes a menu and focuses its button; a menu that loses the focus closes. */
"use strict";
(() => {
  const opened = () => document.querySelector("details.chip[open]");

  const leave = ({ target }) => {
    const menu = opened();
    // A click between the choices focuses the page itself.
    if (menu && target.id !== "content-start" && !menu.contains(target)) menu.open = false;
  };

  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && opened();
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.addEventListener("focusin", leave);
  document.addEventListener("pointerdown", leave);
})();
