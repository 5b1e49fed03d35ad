/* Gives the parts of Django's own widgets the names that they lack for screen readers. */
"use strict";
window.addEventListener("load", () => {
  const name = (inputs, part) => document.querySelectorAll(inputs).forEach((input) => {
    if (input.labels.length || input.ariaLabel) return;
    const row = input.closest(".form-row");
    const label = row && row.querySelector("legend, label");
    input.setAttribute("aria-label", `${label ? label.textContent.replace(/:\s*$/, "").trim() : ""} ${part}`.trim());
  });
  name("input.vDateField", "(date)");
  name("input.vTimeField", "(time)");
  document.querySelectorAll("span.help-tooltip[aria-label]").forEach((span) => span.setAttribute("role", "img"));
});
