// The chart of what was sent: bars by minute, from the figures in an element that the stream keeps fresh.

const charts = new Map();

// Colours are tokens of the style sheet; a canvas needs to know what they are at this moment.
function colour(place, token) {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  place.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function faded(found) {
  return found.replace("rgb(", "rgba(").replace(")", ", 0.75)");
}

function bars(place, name, token, label) {
  return {
    label,
    stroke: colour(place, token),
    fill: faded(colour(place, token)),
    width: 0,
    points: { show: false },
    paths: uPlot.paths.bars({ size: [0.72, 24], radius: 0.15 }),
    value: (_, value) => (value == null ? "–" : value.toLocaleString("en").replaceAll(",", "\u202f")),
  };
}

// The time of day where a bar is minutes, the day where it is hours.
function when(at, step) {
  const form = step < 3600 ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" };
  return new Date(at * 1000).toLocaleString("en-GB", form);
}

function draw(place) {
  const data = JSON.parse(document.getElementById(place.dataset.chart).textContent);
  const series = [data.times, data.sent, data.failed];
  const known = charts.get(place);
  if (known) return known.setData(series);
  const ink = colour(place, "--ink-soft");
  const grid = { stroke: colour(place, "--line"), width: 1 };
  const axis = { stroke: ink, grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const room = () => ({ width: place.clientWidth, height: 160 });
  const made = new uPlot(
    {
      ...room(),
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      legend: { live: true },
      scales: {
        x: { range: (_, low, high) => [low - data.step / 2, high + data.step / 2] },
        y: { range: (_, low, high) => [0, Math.max(high * 1.1, 5)] },
      },
      axes: [
        { ...axis, grid: { show: false }, size: 28, space: 64, values: (_, ticks) => ticks.map((at) => when(at, data.step)) },
        { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString("en") : "")) },
      ],
      series: [
        { label: "Time", value: (_, at) => (at == null ? "–" : `${when(at, 86400)} ${when(at, 60)}`) },
        bars(place, "sent", "--info", "Sent"),
        bars(place, "failed", "--bad", "Failed or bounced"),
      ],
    },
    series,
    place,
  );
  charts.set(place, made);
  new ResizeObserver(() => made.setSize(room())).observe(place);
}

function drawAgain(place) {
  charts.get(place)?.destroy();
  charts.delete(place);
  draw(place);
}

for (const place of document.querySelectorAll("[data-chart]")) {
  draw(place);
  document.getElementById(place.dataset.chart).addEventListener("told", () => draw(place));
  document.addEventListener("theme", () => drawAgain(place));
}
