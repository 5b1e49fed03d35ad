/* The browsable API: sends the API token with each request and displays the response on the page. Without
   scripts, pages are read-only and work only if no token is required. */
"use strict";
(() => {
  const KEY = "gpuplatform-api-token";
  const HTML = "text/html, */*;q=0.1";
  const isApi = (url) => url.origin === location.origin && url.pathname.startsWith("/api/v1/");
  /* A signed link requires no token and starts a download. */
  const isDownload = (url) => url.searchParams.has("sig");

  const token = () => sessionStorage.getItem(KEY) || "";
  const authorization = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

  const showText = (text, status) => {
    const response = document.querySelector("pre");
    response.textContent = `${status}\n\n${text}`;
    response.scrollIntoView();
  };

  const showPage = (html) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    document.title = page.title;
    document.querySelector("main").replaceWith(document.adoptNode(page.querySelector("main")));
    prepare();
    scrollTo(0, 0);
  };

  const send = async (url, options = {}) => {
    const headers = { Accept: HTML, ...authorization(), ...options.headers };
    const response = await fetch(url, { ...options, headers, credentials: "omit" });
    const text = await response.text();
    if ((response.headers.get("Content-Type") || "").startsWith("text/html")) showPage(text);
    else showText(text, response.status);
  };

  const open = async (url) => {
    await send(url);
    history.pushState(null, "", url);
  };

  const submit = (form) => {
    const url = new URL(form.getAttribute("action"), location.href);
    form.querySelectorAll("[data-query]").forEach((input) => {
      if (input.value) url.searchParams.set(input.dataset.query, input.value);
    });
    const body = form.querySelector('[data-override="content"]');
    const type = form.querySelector('[data-override="content-type"]');
    const options = { method: form.dataset.method };
    if (body) Object.assign(options, { body: body.value, headers: { "Content-Type": type.value } });
    return send(url, options);
  };

  const prepare = () => {
    const box = document.querySelector("[data-token]");
    box.hidden = false;
    box.querySelector("[data-token-state]").textContent = token()
      ? "Requests from this tab include the token."
      : "Enter a token to send requests, except in development mode. The login to the admin does not apply. Stored in this tab only.";
    box.querySelector("[data-token-forget]").hidden = !token();
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-token-forget]")) {
      sessionStorage.removeItem(KEY);
      send(location.href);
      return;
    }
    const link = event.target.closest("a[href]");
    if (!link || event.defaultPrevented || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const url = new URL(link.href);
    if (!isApi(url) || isDownload(url)) return;
    event.preventDefault();
    open(url);
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    event.preventDefault();
    if (form.matches("[data-token-form]")) {
      sessionStorage.setItem(KEY, form.querySelector("input").value.trim());
      send(location.href);
    } else {
      submit(form);
    }
  });

  addEventListener("popstate", () => send(location.href));
  prepare();
  if (token()) send(location.href);
})();
