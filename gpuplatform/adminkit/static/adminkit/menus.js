/* The menus of filters: Escape closes one and leads back to its name; one that is left closes by itself. */
"use strict";
(() => {
  const opened = () => document.querySelector("details.chip[open]");

  const leave = ({ target }) => {
    const menu = opened();
    // The page itself gets the focus where a menu is clicked between its choices.
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
