/* The key "/" focuses the search field, except while another field has the focus. */
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const fields = [...document.querySelectorAll("[data-search]")];
  const field = fields.find((one) => one.offsetParent !== null);
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});
