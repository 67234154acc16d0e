// The chart of sent and failed emails. Its data is in an element that live updates replace.

const charts = new Map();

// A canvas needs the computed value of the style sheet's colour variables.
function colour(element, token) {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  element.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function faded(value) {
  return value.replace("rgb(", "rgba(").replace(")", ", 0.75)");
}

function bars(element, name, token, label) {
  return {
    label,
    stroke: colour(element, token),
    fill: faded(colour(element, token)),
    width: 0,
    points: { show: false },
    paths: uPlot.paths.bars({ size: [0.72, 24], radius: 0.15 }),
  };
}

// Label bars with the time of day, or with the date if a bar is an hour or longer.
function timeLabel(at, step, timeZone) {
  const form = step < 3600 ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" };
  return new Date(at * 1000).toLocaleString(LANGUAGE === "en" ? "en-GB" : LANGUAGE, { ...form, timeZone });
}

// Several ticks of one day have the same label: only the first one shows it.
function withoutRepeats(labels) {
  return labels.map((label, index) => (label === labels[index - 1] ? "" : label));
}

// A box at the cursor with the time span and the figures of the bar.
function tooltip(data) {
  const box = document.createElement("div");
  const title = document.createElement("b");
  const lines = [1, 2].map(() => document.createElement("span"));
  box.className = "chart-tooltip";
  box.hidden = true;
  box.append(title, ...lines);
  const move = (chart) => {
    const { left, idx } = chart.cursor;
    box.hidden = idx == null || left < 0;
    if (box.hidden) return;
    const at = chart.data[0][idx];
    const end = timeLabel(at + data.step, 60, data.zone);
    title.textContent = `${timeLabel(at, 86400, data.zone)}, ${timeLabel(at, 60, data.zone)}–${end}`;
    for (const [number, line] of lines.entries()) {
      const words = [chart.series[number + 1].label, chart.data[number + 1][idx].toLocaleString(LANGUAGE)];
      line.replaceChildren(...words.map((text) => Object.assign(document.createElement("i"), { textContent: text })));
    }
    // Beside the cursor, on the side that has room.
    const x = left + chart.bbox.left / devicePixelRatio;
    box.style.left = `${x + box.offsetWidth + 24 < chart.width ? x + 12 : x - box.offsetWidth - 12}px`;
    box.style.top = "0.5rem";
  };
  return { hooks: { init: (chart) => chart.root.append(box), setCursor: move } };
}

function draw(element) {
  const data = JSON.parse(document.getElementById(element.dataset.chart).textContent);
  const series = [data.times, data.sent, data.failed];
  const existing = charts.get(element);
  if (existing) return existing.setData(series);
  const ink = colour(element, "--ink-soft");
  const grid = { stroke: colour(element, "--line"), width: 1 };
  const axis = { stroke: ink, grid, ticks: { show: false }, font: "11px Inter, system-ui, sans-serif" };
  const room = () => ({ width: element.clientWidth, height: 160 });
  const chart = new uPlot(
    {
      ...room(),
      // Ticks at round times of the tenant's time zone, not the browser's.
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), data.zone),
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      legend: { live: false },
      plugins: [tooltip(data)],
      scales: {
        x: { range: (_, low, high) => [low - data.step / 2, high + data.step / 2] },
        y: { range: (_, low, high) => [0, Math.max(high * 1.1, 5)] },
      },
      axes: [
        { ...axis, grid: { show: false }, size: 28, space: 64, values: (_, ticks) => withoutRepeats(ticks.map((at) => timeLabel(at, data.step, data.zone))) },
        { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString(LANGUAGE) : "")) },
      ],
      series: [
        {},
        bars(element, "sent", "--info", t("Sent")),
        bars(element, "failed", "--bad", t("Failed or bounced")),
      ],
    },
    series,
    element,
  );
  charts.set(element, chart);
  new ResizeObserver(() => chart.setSize(room())).observe(element);
}

function redraw(element) {
  charts.get(element)?.destroy();
  charts.delete(element);
  draw(element);
}

for (const element of document.querySelectorAll("[data-chart]")) {
  draw(element);
  document.getElementById(element.dataset.chart).addEventListener("liveupdate", () => draw(element));
  document.addEventListener("theme", () => redraw(element));
}
