/* Buttons with data-copy copy the text before them to the clipboard. Without scripts, they remain hidden. */
"use strict";
(() => {
  const CONFIRMATION_MS = 1500;

  const copy = async (source) => {
    // navigator.clipboard requires TLS or localhost; execCommand does not.
    if (navigator.clipboard) return navigator.clipboard.writeText(source.textContent);
    const selection = document.getSelection();
    selection.selectAllChildren(source);
    if (!document.execCommand("copy")) throw new Error("not copied");
    selection.removeAllRanges();
    return undefined;
  };

  const showButtons = () => document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = button.previousElementSibling;
    try {
      await copy(source);
      button.textContent = "Copied";
    } catch {
      document.getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, CONFIRMATION_MS);
  });
  new MutationObserver(showButtons).observe(document.body, { childList: true, subtree: true });
  showButtons();
})();
