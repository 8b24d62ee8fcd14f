"use strict";
// What saves people clicks: search as one types, changes without leaving the list, keys, times of the browser's own
// clock. Every view works without this script, by links, fields and buttons.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);
const minute = 60000;

// --- Times ---

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");
const day = (at) => `${at.getDate()} ${months[at.getMonth()]} ${at.getFullYear()}`;
const clock = (at) => `${day(at)}, ${two(at.getHours())}:${two(at.getMinutes())}`;
const forField = (at) =>
  `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;

/** Shows times, which the server writes in UTC, as the browser's clock has them. */
function localTimes(root) {
  for (const time of all("time[datetime]", root)) {
    const at = new Date(time.dateTime);
    if (isNaN(at) || time.dataset.local) continue;
    time.dataset.local = "yes";
    time.title = clock(at);
    time.textContent = time.classList.contains("day") ? day(at) : clock(at);
  }
}

/** Has a field of a time speak the browser's time, while its form sends UTC. */
function localField(field) {
  const sent = document.createElement("input");
  sent.type = "hidden";
  sent.name = field.name;
  field.removeAttribute("name");
  field.after(sent);
  const tell = () => {
    sent.value = field.value ? new Date(field.value).toISOString().slice(0, 16) : "";
  };
  if (field.value) field.value = forField(new Date(field.value + "Z"));
  tell();
  field.addEventListener("change", tell);
  for (const zone of all("[data-zone]", field.form)) zone.textContent = "(your time)";
  return tell;
}

/** A slider beside a field of a time. While it moves, the page shows what held then. */
function slide(slider) {
  const field = document.getElementById(slider.dataset.slider);
  const tell = localField(field);
  const first = Date.parse(slider.dataset.first + "Z");
  const last = Date.parse(slider.dataset.last + "Z");
  if (!(first < last)) return;
  const shown = () => (field.value ? new Date(field.value).getTime() : last);
  slider.min = 0;
  slider.max = Math.ceil((last - first) / minute);
  slider.step = Math.max(1, Math.round(slider.max / 200));
  slider.value = Math.round((shown() - first) / minute);
  slider.hidden = false;
  const say = () =>
    slider.setAttribute("aria-valuetext", field.value ? clock(new Date(field.value)) : "now");
  say();
  slider.addEventListener("input", () => {
    const isNow = Number(slider.value) >= Number(slider.max);
    field.value = isNow ? "" : forField(new Date(first + slider.value * minute));
    tell();
    say();
    live(slider.form);
  });
  field.addEventListener("change", () => {
    slider.value = Math.round((shown() - first) / minute);
    say();
  });
}

// --- Parts of a view that are shown anew ---

/** Puts parts of another page in the place of those of this one. */
function put(page, selectors) {
  for (const selector of selectors) {
    const [old, fresh] = [one(selector), one(selector, page)];
    if (!old || !fresh) continue;
    old.replaceChildren(...fresh.childNodes);
    begin(old);
  }
}

const parse = (text) => new DOMParser().parseFromString(text, "text/html");
/** An address without what was just done. */
function settled(address) {
  const url = new URL(address, location.href);
  url.searchParams.delete("done");
  url.searchParams.delete("ids");
  return url.pathname + url.search + url.hash;
}

const running = new Map();
/** Asks for what a form shows, a moment after the last change, and shows it. */
function live(form, wait = 200) {
  if (!form.dataset.live || !form.checkValidity()) return;
  const before = running.get(form);
  if (before) {
    clearTimeout(before.timer);
    before.request.abort();
  }
  const request = new AbortController();
  const timer = setTimeout(async () => {
    const fields = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const address = form.getAttribute("action") + (String(fields) && "?" + fields);
    try {
      const answer = await fetch(address, { signal: request.signal });
      if (answer.redirected || !answer.ok) return location.assign(address);
      put(parse(await answer.text()), form.dataset.live.split(", "));
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") location.assign(address);
    }
  }, wait);
  running.set(form, { timer, request });
}

/** Hides the rows without the words at once; the server finds the others. */
function filter(field) {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  const rows = all("[data-row]", one(field.dataset.filter));
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  return [shown, rows.length];
}

/** Sends a form and shows what came of it in the list that it belongs to. */
async function send(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  const answer = await fetch(form.action, { method: "POST", body });
  const page = parse(await answer.text());
  if (!answer.ok || !one("#known") || !one("#known", page)) {
    if (answer.ok) return location.assign(answer.url);
    return one("main").replaceChildren(...one("main", page).childNodes);
  }
  const isNew = !one("#count");
  if (isNew) return location.assign(answer.url);
  put(page, ["#known", "#count", "#notice"]);
  for (const opened of all("details.add[open]")) {
    opened.open = false;
    one("form", opened).reset();
  }
  history.replaceState(null, "", settled(answer.url));
  const changed = new URL(answer.url).searchParams;
  const row = document.getElementById("f-" + (changed.get("ids") || "").split(",")[0]);
  (one("#notice button") || one("#notice a"))?.focus({ preventScroll: true });
  if (row && changed.get("done") !== "forgotten") one(".text a", row).focus();
}

let countdown;
/** Takes the notice away after its seconds, unless the user is at it. */
function expire(notice) {
  clearTimeout(countdown);
  const seconds = Number(notice.dataset.for || 10);
  const close = () => {
    if (notice.matches(":hover")) countdown = setTimeout(close, 1000);
    else notice.remove();
  };
  countdown = setTimeout(close, seconds * 1000);
}

// --- Import ---

function importing(form) {
  const [field, drop, shown] = [one("#files", form), one(".drop", form), one("#preview", form)];
  one("[data-drop]", form).hidden = false;
  const post = (address, onProgress) =>
    new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", address);
      request.upload.onprogress = onProgress;
      request.onload = () => resolve(parse(request.responseText));
      request.onerror = reject;
      request.send(new FormData(form));
    });
  field.addEventListener("change", async () => {
    if (!field.files.length) return shown.replaceChildren();
    shown.textContent = "Looking into the files …";
    const page = await post(form.dataset.import);
    const found = one("#preview", page) || one(".note", page);
    shown.replaceChildren(...(found ? found.childNodes : []));
    begin(shown);
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name !== "drop" || !event.dataTransfer.files.length) return;
      field.files = event.dataTransfer.files;
      field.dispatchEvent(new Event("change"));
    });
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const progress = one("#progress", form);
    progress.hidden = false;
    one("button", form).disabled = true;
    const asking = setInterval(async () => {
      const stored = await (await fetch(form.dataset.progress)).json();
      if (stored !== null) shown.textContent = `${stored} memories are stored so far.`;
    }, 500);
    try {
      const page = await post(form.action, (sent) => {
        if (sent.loaded < sent.total) [progress.max, progress.value] = [sent.total, sent.loaded];
        else progress.removeAttribute("value");
      });
      one("main").replaceChildren(...one("main", page).childNodes);
      begin(one("main"));
      one("main").focus();
    } finally {
      clearInterval(asking);
    }
  });
}

// --- Keys ---

const isTyping = (element) => element.matches("input:not([type=checkbox]), textarea, select");

function toTheEnd(field) {
  if (field === document.activeElement) return;
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
}

/** Goes on to the next row, or back. */
function go(step) {
  const rows = all("[data-row]:not([hidden])");
  const here = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[Math.min(Math.max(here + step, 0), rows.length - 1)];
  if (row) one(".text a, h3 a", row)?.focus();
}

function pressed(event) {
  const at = document.activeElement;
  if (event.key === "Escape") {
    const open = at.closest("details.edit[open], details.menu[open], details.add[open], details.forget[open]") || one("details.menu[open]");
    if (open) {
      open.open = false;
      (open.matches(".edit") && open.closest("[data-row]") ? one(".text a", open.closest("[data-row]")) : one("summary", open)).focus();
    } else if (at.matches("input[type=search]") && at.value) {
      at.value = "";
      at.dispatchEvent(new Event("input", { bubbles: true }));
    } else at.blur();
    return;
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && at.matches("textarea")) {
    event.preventDefault();
    return at.form.requestSubmit();
  }
  if (isTyping(at) || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    "/": () => one("#q")?.select(),
    j: () => go(1),
    k: () => go(-1),
    e: () => {
      const edit = one("details.edit", at.closest("[data-row]") || one(".one") || document);
      if (!edit) return;
      edit.open = true;
      toTheEnd(one("textarea", edit));
    },
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

// --- The page ---

/** What is done with each part of a view when it comes. */
function begin(root) {
  localTimes(root);
  all("[data-slider]", root).forEach(slide);
  all("form[data-import]", root).forEach(importing);
  all(".toast", root).forEach(expire);
  for (const edit of all("details.edit", root)) {
    edit.addEventListener("toggle", () => {
      if (edit.open) toTheEnd(one("textarea", edit));
    });
  }
}

document.addEventListener("input", (event) => {
  const field = event.target;
  if (field.matches("[data-filter]")) {
    const [shown, of] = filter(field);
    const count = one("#count");
    if (count && field.value) count.textContent = `${shown} of ${of} shown.`;
  }
  if (field.matches("input[type=search][data-filter]")) live(field.form);
});
document.addEventListener("change", (event) => {
  const field = event.target;
  if (field.matches(".chips select, .chips .chip input, .chips [type=datetime-local]")) live(field.form, 0);
  const selected = one("[data-selected]");
  if (field.matches(".pick") && selected) selected.textContent = `${all(".pick:checked").length} selected`;
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("[data-swap]")) {
    event.preventDefault();
    send(form, event.submitter);
  } else if (form.dataset.live && one(form.dataset.filter || "#known")) {
    event.preventDefault();
    live(form, 0);
  }
});
document.addEventListener("reset", (event) => {
  const edit = event.target.closest("details.edit");
  if (edit) edit.open = false;
});
document.addEventListener("click", (event) => {
  for (const menu of all("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  if (event.target.matches(".toast .close")) {
    event.preventDefault();
    event.target.closest(".toast").remove();
  }
});
document.addEventListener("keydown", pressed);
for (const field of all("input[type=datetime-local]")) {
  if (!one(`[data-slider="${field.id}"]`)) localField(field);
}
begin(document);
one("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
if (one(".toast")) history.replaceState(null, "", settled(location.href));
