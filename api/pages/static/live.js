"use strict";
// Keeps the page of an active run up to date: fetches it again and puts its content in the place of
// the old one. What is folded or unfolded stays so. Waits while nobody looks, or something is marked.
const PERIOD_MS = 1500;

function folds(main) {
  const named = (one) => one.id || one.closest("[id]").id + one.querySelector("summary").textContent;
  return Array.from(main.querySelectorAll("details"), (one) => [named(one), one]);
}

async function refresh() {
  const main = document.querySelector("main");
  if (!document.hidden && document.getSelection().isCollapsed) {
    const answer = await fetch(location.href);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = fresh.querySelector("main");
    if (!answer.ok || !next) throw new Error(answer.status);
    const before = new Map(folds(main));
    for (const [name, one] of folds(next)) one.open = before.get(name)?.open ?? one.open;
    const focused = document.activeElement.id;
    main.replaceWith(next);
    document.title = fresh.title;
    if (focused) document.getElementById(focused)?.focus();
    if (!("live" in next.dataset)) return;
  }
  setTimeout(again, PERIOD_MS);
}

function again() {
  refresh().catch(() => setTimeout(again, PERIOD_MS));
}

setTimeout(again, PERIOD_MS);
