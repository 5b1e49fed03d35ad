/* Keeps the regions marked data-live fresh: asks for the same page again and puts in what has changed.
   Rests while the tab is hidden, while text is selected, and while the focus or an open menu is inside
   the region. Stops when the page is no longer there (logged out, deleted). */
"use strict";
(() => {
  const PERIOD = 5000;
  const regions = () => document.querySelectorAll("[data-live]");
  if (!regions().length) return;

  const isBusy = (region) => {
    const selection = document.getSelection();
    return region.contains(document.activeElement)
      || region.querySelector("input:checked") !== null
      || (selection && !selection.isCollapsed && region.contains(selection.anchorNode));
  };

  const put = (page) => {
    for (const region of regions()) {
      const fresh = page.querySelector(`[data-live="${region.dataset.live}"]`);
      if (!fresh || isBusy(region) || fresh.innerHTML === region.dataset.shown) continue;
      const scrolled = [...region.querySelectorAll("pre, .words")].map((box) => box.scrollTop);
      region.dataset.shown = fresh.innerHTML;
      region.replaceChildren(...fresh.childNodes);
      region.querySelectorAll("pre, .words").forEach((box, i) => { box.scrollTop = scrolled[i] || 0; });
    }
  };

  const refresh = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(location.href, { redirect: "manual", credentials: "same-origin" });
        if (answer.type === "opaqueredirect" || answer.status === 403 || answer.status === 404) return;
        if (answer.ok) put(new DOMParser().parseFromString(await answer.text(), "text/html"));
      } catch {
        // The server is away; the next round asks again.
      }
    }
    setTimeout(refresh, PERIOD);
  };

  // Django's own script knows the boxes of the page as it was loaded only.
  document.addEventListener("change", (event) => {
    const boxes = [...document.querySelectorAll("input.action-select")];
    if (event.target.id === "action-toggle") boxes.forEach((box) => { box.checked = event.target.checked; });
    else if (!event.target.classList.contains("action-select")) return;
    const counter = document.querySelector(".action-counter");
    const chosen = boxes.filter((box) => box.checked).length;
    if (counter) counter.textContent = `${chosen} of ${counter.dataset.actionsIcnt} selected`;
  });

  for (const region of regions()) region.dataset.shown = region.innerHTML;
  setTimeout(refresh, PERIOD);
})();
