// Puts what happens into the page: parts that the server has rendered and escaped, and nothing else.
"use strict";
(() => {
  const MOST = 100; // decisions that stay on the page
  const SILENCE = 12000; // milliseconds without a word after which nothing on the page is sure
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("hooklatch", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  const find = (id) => document.getElementById(id);
  const lost = find("lost");
  const list = find("decisions");
  const pause = find("pause");
  let paused = false;
  let count = 0;
  let heard = Date.now();

  const parts = (text) => {
    const template = document.createElement("template");
    template.innerHTML = policy.createHTML(text);
    return template.content;
  };

  const loss = (text) => {
    if (!lost || lost.textContent === text) return;
    lost.textContent = text;
    lost.hidden = !text;
    document.body.classList.toggle("stale", Boolean(text));
  };

  const replace = (id, text) => {
    const place = find(id);
    if (!place || place.dataset.text === text) return;
    if (place.contains(document.activeElement)) return; // not under somebody's hands; the next word will do
    place.dataset.text = text;
    place.replaceChildren(parts(text));
  };

  const show = (text) => {
    if (!list || paused) return;
    const fresh = parts(text);
    const news = [...fresh.children].filter((one) => !one.dataset.id || !known(one.dataset.id));
    for (const one of news) one.classList.add("fresh");
    list.prepend(...news);
    const none = find("none");
    if (none) none.hidden = true;
    while (list.children.length > MOST) {
      if (list.lastElementChild.contains(document.activeElement)) break;
      list.lastElementChild.remove();
    }
    count += news.length;
    const told = find("heard");
    if (told) told.textContent = `${count} decisions since this page was opened`;
  };

  const known = (id) => [...list.children].some((one) => one.dataset.id === id);

  const stream = new EventSource(document.body.dataset.live);
  const on = (name, act) =>
    stream.addEventListener(name, (event) => {
      heard = Date.now();
      loss("");
      document.body.dataset.heard = name;
      act(event.data);
    });
  on("status", (text) => replace("status", text));
  on("asks", (text) => replace("asks", text));
  on("decisions", show);
  on("waiting", (text) => {
    const badge = find("waiting");
    if (!badge) return;
    badge.hidden = !Number(text);
    badge.firstChild.data = text || "0";
    document.title = document.title.replace(/^(\(\d+\) )?/, Number(text) ? `(${Number(text)}) ` : "");
  });
  const gone = () =>
    loss(`The dashboard does not answer. What this page shows is from ${new Date(heard).toLocaleTimeString()}; how things are now is not known.`);
  stream.addEventListener("error", gone);
  window.setInterval(() => Date.now() - heard > SILENCE && gone(), 1000);
  window.addEventListener("pagehide", () => stream.close());

  if (pause) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Go on" : "Pause";
    });
  }
})();
