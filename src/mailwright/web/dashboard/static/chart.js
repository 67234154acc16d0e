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
    value: (_, value) => (value == null ? "–" : value.toLocaleString("en").replaceAll(",", "\u202f")),
  };
}

// Label bars with the time of day, or with the date if a bar is an hour or longer.
function timeLabel(at, step, timeZone) {
  const form = step < 3600 ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" };
  return new Date(at * 1000).toLocaleString("en-GB", { ...form, timeZone });
}

function draw(element) {
  const data = JSON.parse(document.getElementById(element.dataset.chart).textContent);
  const series = [data.times, data.sent, data.failed];
  const existing = charts.get(element);
  if (existing) return existing.setData(series);
  const ink = colour(element, "--ink-soft");
  const grid = { stroke: colour(element, "--line"), width: 1 };
  const axis = { stroke: ink, grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const room = () => ({ width: element.clientWidth, height: 160 });
  const chart = new uPlot(
    {
      ...room(),
      // Ticks at round times of the tenant's time zone, not the browser's.
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), data.zone),
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      legend: { live: true },
      scales: {
        x: { range: (_, low, high) => [low - data.step / 2, high + data.step / 2] },
        y: { range: (_, low, high) => [0, Math.max(high * 1.1, 5)] },
      },
      axes: [
        { ...axis, grid: { show: false }, size: 28, space: 64, values: (_, ticks) => ticks.map((at) => timeLabel(at, data.step, data.zone)) },
        { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString("en") : "")) },
      ],
      series: [
        { label: "Time", value: (_, at) => (at == null ? "–" : `${timeLabel(at, 86400, data.zone)} ${timeLabel(at, 60, data.zone)}`) },
        bars(element, "sent", "--info", "Sent"),
        bars(element, "failed", "--bad", "Failed or bounced"),
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
