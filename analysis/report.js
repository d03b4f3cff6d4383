// What a script adds to a report that is whole without one: which policies are shown, and the name
// of the link under the pointer, or under the arrow keys.
(() => {
  const data = (id) => JSON.parse(document.getElementById(id).textContent);

  const policies = data("policies");
  if (policies.length > 1) {
    const filter = document.createElement("fieldset");
    filter.className = "filter";
    filter.append(Object.assign(document.createElement("legend"), {
      textContent: "Policies shown in tables and tails",
    }));
    policies.forEach((name, place) => {
      const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
      box.addEventListener("change", () => show(place, box.checked));
      const label = document.createElement("label");
      label.append(box, " ", name);
      filter.append(label);
    });
    document.querySelector("nav").after(filter);
  }

  function show(place, on) {
    for (const part of document.querySelectorAll(`[data-policy="${place}"]`)) part.hidden = !on;
    for (const curve of document.querySelectorAll(`svg [id$="of-policy-${place}."]`)) {
      curve.style.display = on ? "" : "none";
    }
  }

  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });

  const tip = document.createElement("output");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-live", "polite");
  document.body.append(tip);

  function tell(text, x, y) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const wide = tip.getBoundingClientRect().width;
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - wide - 4))}px`;
    tip.style.top = `${y > 40 ? y - 32 : y + 18}px`;
  }

  for (const figure of document.querySelectorAll("figure[data-grids]")) {
    const grids = data(figure.dataset.grids);
    if (!grids.length) continue;
    const svg = figure.querySelector("svg");
    const at = { grid: 0, row: 0, column: 0 };

    svg.addEventListener("pointermove", (event) => {
      const frame = svg.getBoundingClientRect();
      const x = (event.clientX - frame.left) / frame.width;
      const y = (event.clientY - frame.top) / frame.height;
      const text = grids.map(({ box: [left, top, width, height], texts }) => {
        const across = (x - left) / width, down = (y - top) / height;
        if (across < 0 || across >= 1 || down < 0 || down >= 1) return "";
        const row = texts[Math.floor(down * texts.length)];
        return row[Math.floor(across * row.length)];
      }).find(Boolean);
      tell(text, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => tell(""));

    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    figure.tabIndex = 0;
    figure.addEventListener("blur", () => tell(""));
    figure.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return tell("");
      const step = steps[event.key];
      if (!step && event.key !== "Enter") return;
      event.preventDefault();
      if (!step) Object.assign(at, { grid: (at.grid + 1) % grids.length, row: 0, column: 0 });
      const { box: [left, top, width, height], texts } = grids[at.grid];
      const [down, across] = step || [0, 0];
      at.row = Math.max(0, Math.min(texts.length - 1, at.row + down));
      at.column = Math.max(0, Math.min(texts[0].length - 1, at.column + across));
      const frame = svg.getBoundingClientRect();
      tell(
        texts[at.row][at.column] || "no link here",
        frame.left + frame.width * (left + (width * (at.column + 0.5)) / texts[0].length),
        frame.top + frame.height * (top + (height * (at.row + 0.5)) / texts.length),
      );
    });
  }
})();
