/* What is left to say beside htmx, which asks for the page again and puts its live regions in: rests while
   the tab is hidden; leaves a region as it is that has not changed, that has the focus or a selection in
   it; says so when no answer comes, and when the page is no longer there (logged out, deleted). */
"use strict";
(() => {
  const poller = document.getElementById("live");
  if (!poller) return;
  const regions = [...document.querySelectorAll("[id^=live-]")];
  const shown = new Map(regions.map((region) => [region, region.innerHTML]));
  poller.setAttribute("hx-select-oob", regions.map((region) => `#${region.id}:innerHTML`).join(","));
  const boxes = (region) => region.querySelectorAll("pre, .words");
  let scrolled = [];

  const isBusy = (region) => {
    const selection = document.getSelection();
    return region.contains(document.activeElement)
      || region.querySelector("input:checked") !== null
      || (selection && !selection.isCollapsed && region.contains(selection.anchorNode));
  };

  document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
    const { target, fragment } = detail;
    detail.shouldSwap = fragment.innerHTML !== shown.get(target) && !isBusy(target);
    if (!detail.shouldSwap) return;
    shown.set(target, fragment.innerHTML);
    scrolled = [...boxes(target)].map((box) => box.scrollTop);
  });

  document.addEventListener("htmx:oobAfterSwap", ({ detail }) => {
    if (detail.shouldSwap) boxes(detail.target).forEach((box, i) => { box.scrollTop = scrolled[i] || 0; });
  });

  const banner = document.createElement("p");
  banner.className = "stale";
  banner.setAttribute("role", "status");
  let answeredAt = new Date();

  const warn = (text) => {
    if (banner.textContent !== text) banner.textContent = text;
    if (!banner.isConnected) document.querySelector("main").prepend(banner);
  };

  const LOGGED_OUT = "You are no longer logged in.";
  const GONE = { 403: "You may no longer see this page.", 404: "What this page showed is gone." };

  poller.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden) event.preventDefault();
  });

  poller.addEventListener("htmx:afterRequest", ({ detail: { xhr, successful } }) => {
    const isElsewhere = successful && new URL(xhr.responseURL).pathname !== location.pathname;
    const gone = isElsewhere ? LOGGED_OUT : GONE[xhr.status];
    const then = `This page shows how things were at ${answeredAt.toLocaleTimeString()}`;
    if (gone) {
      warn(`${gone} ${then}.`);
      poller.remove();
    } else if (successful) {
      answeredAt = new Date();
      banner.remove();
    } else {
      warn(`The server does not answer. ${then}, and asks again by itself.`);
    }
  });

  // Django's own script knows the boxes of the page as it was loaded only.
  document.addEventListener("change", (event) => {
    const rows = [...document.querySelectorAll("input.action-select")];
    if (event.target.id === "action-toggle") rows.forEach((row) => { row.checked = event.target.checked; });
    else if (!event.target.classList.contains("action-select")) return;
    const counter = document.querySelector(".action-counter");
    const chosen = rows.filter((row) => row.checked).length;
    if (counter) counter.textContent = `${chosen} of ${counter.dataset.actionsIcnt} selected`;
  });
})();
