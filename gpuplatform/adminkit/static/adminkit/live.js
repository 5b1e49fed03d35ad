/* Extensions of htmx, which polls the page and replaces its live regions. Polling pauses while the tab is
   hidden. Regions that are unchanged, focused or selected are not replaced. A banner appears if the server
   does not respond, if the user is logged out, or if the object no longer exists. */
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
  let respondedAt = new Date();

  const warn = (text) => {
    if (banner.textContent !== text) banner.textContent = text;
    if (!banner.isConnected) document.querySelector("main").prepend(banner);
  };

  const LOGGED_OUT = "You are logged out.";
  const UNAVAILABLE = { 403: "You no longer have access to this page.", 404: "This object no longer exists." };

  poller.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden) event.preventDefault();
  });

  poller.addEventListener("htmx:afterRequest", ({ detail: { xhr, successful } }) => {
    const isElsewhere = successful && new URL(xhr.responseURL).pathname !== location.pathname;
    const unavailable = isElsewhere ? LOGGED_OUT : UNAVAILABLE[xhr.status];
    const age = `The data is from ${respondedAt.toLocaleTimeString()}.`;
    if (unavailable) {
      warn(`${unavailable} ${age}`);
      poller.remove();
    } else if (successful) {
      respondedAt = new Date();
      banner.remove();
    } else {
      warn(`The server is not responding. ${age} Retrying automatically.`);
    }
  });

  // Django's script handles only the checkboxes that exist when the page loads.
  document.addEventListener("change", (event) => {
    const rows = [...document.querySelectorAll("input.action-select")];
    if (event.target.id === "action-toggle") rows.forEach((row) => { row.checked = event.target.checked; });
    else if (!event.target.classList.contains("action-select")) return;
    const counter = document.querySelector(".action-counter");
    const selected = rows.filter((row) => row.checked).length;
    if (counter) counter.textContent = `${selected} of ${counter.dataset.actionsIcnt} selected`;
  });
})();
