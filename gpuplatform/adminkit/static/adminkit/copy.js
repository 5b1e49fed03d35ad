/* Buttons marked data-copy put the text before them on the clipboard; without a script they stay hidden. */
"use strict";
(() => {
  const SHOWN_MS = 1500;

  const put = async (source) => {
    // The clipboard is for pages of this machine or over TLS; elsewhere the old way has to do.
    if (navigator.clipboard) return navigator.clipboard.writeText(source.textContent);
    const selection = document.getSelection();
    selection.selectAllChildren(source);
    if (!document.execCommand("copy")) throw new Error("not copied");
    selection.removeAllRanges();
    return undefined;
  };

  const show = () => document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = button.previousElementSibling;
    try {
      await put(source);
      button.textContent = "Copied";
    } catch {
      document.getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, SHOWN_MS);
  });
  new MutationObserver(show).observe(document.body, { childList: true, subtree: true });
  show();
})();
