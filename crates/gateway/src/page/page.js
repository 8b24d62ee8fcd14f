"use strict";
// A slider beside each field of a time. While it moves, the page asks for what held then and shows it;
// without this script the field and the button do the same.

const wait = 150;

function begin(slider) {
  const field = document.getElementById(slider.dataset.slider);
  const first = Date.parse(slider.dataset.first + "Z");
  const last = Date.parse(slider.dataset.last + "Z");
  if (!field || !(first < last)) return;
  const form = slider.form;
  const shown = () => (field.value ? Date.parse(field.value + "Z") : last);
  const minute = 60000;
  slider.min = 0;
  slider.max = Math.ceil((last - first) / minute);
  slider.step = Math.max(1, Math.round(slider.max / 200));
  slider.value = Math.round((shown() - first) / minute);
  slider.hidden = false;
  const tell = () => slider.setAttribute("aria-valuetext", field.value ? field.value.replace("T", " ") : "now");
  tell();

  let timer, running;
  slider.addEventListener("input", () => {
    const isNow = Number(slider.value) >= Number(slider.max);
    field.value = isNow ? "" : new Date(first + slider.value * minute).toISOString().slice(0, 16);
    tell();
    clearTimeout(timer);
    timer = setTimeout(show, wait);
  });
  field.addEventListener("change", () => {
    slider.value = Math.round((shown() - first) / minute);
    tell();
  });

  async function show() {
    if (!form.checkValidity()) return;
    if (running) running.abort();
    running = new AbortController();
    const address = form.getAttribute("action") + "?" + new URLSearchParams(new FormData(form));
    try {
      const answer = await fetch(address, { signal: running.signal });
      if (answer.redirected || !answer.ok) return location.assign(address);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const place = form.dataset.live;
      document.querySelector(place).replaceChildren(...page.querySelector(place).childNodes);
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
  }
}

for (const slider of document.querySelectorAll("[data-slider]")) begin(slider);
