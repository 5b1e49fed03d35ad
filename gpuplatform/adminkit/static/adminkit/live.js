/* Keeps the regions marked data-live fresh: asks for the same page again and puts in what has changed.
   Rests while the tab is hidden, while text is selected, and while the focus or an open menu is inside
   the region. Says so when no answer comes, and when the page is no longer there (logged out, deleted). */
"use strict";
(() => {
  const PERIOD = 5000;
  const PATIENCE = 10000;
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

  const banner = document.createElement("p");
  banner.className = "stale";
  banner.setAttribute("role", "status");
  let answeredAt = new Date();

  const warn = (text) => {
    if (banner.textContent !== text) banner.textContent = text;
    if (!banner.isConnected) document.querySelector("main").prepend(banner);
  };

  const gone = {
    0: "You are no longer logged in.",
    403: "You may no longer see this page.",
    404: "What this page showed is gone.",
  };

  // Returns whether there is a point in asking again.
  const ask = async () => {
    const shown = `This page shows how things were at ${answeredAt.toLocaleTimeString()}`;
    try {
      const options = { redirect: "manual", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE) };
      const answer = await fetch(location.href, options);
      if (answer.status in gone) {
        warn(`${gone[answer.status]} ${shown}.`);
        return false;
      }
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      put(new DOMParser().parseFromString(await answer.text(), "text/html"));
      answeredAt = new Date();
      banner.remove();
    } catch {
      warn(`The server does not answer. ${shown}, and asks again by itself.`);
    }
    return true;
  };

  let timer = 0;
  let isAsking = false;
  const refresh = async () => {
    clearTimeout(timer);
    if (document.hidden || isAsking) return;
    isAsking = true;
    const goesOn = await ask();
    isAsking = !goesOn;
    if (goesOn) timer = setTimeout(refresh, PERIOD);
  };

  document.addEventListener("visibilitychange", refresh);

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
  timer = setTimeout(refresh, PERIOD);
})();
