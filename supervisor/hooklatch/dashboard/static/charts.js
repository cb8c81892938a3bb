// Draws the time lines: stacked columns out of numbers that the server counted. A click or a drag goes to the record.
"use strict";
(() => {
  const LEGEND = 40; // pixels
  const COLOURS = ["--accent", "--warn", "--bad", "--text"];
  const iso = (seconds) => new Date(seconds * 1000).toISOString();
  const two = (number) => String(number).padStart(2, "0");
  const day = (date) => `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = (date) => `${two(date.getHours())}:${two(date.getMinutes())}`;
  const tick = (date) => (date.getHours() || date.getMinutes() ? clock(date) : day(date));

  const draw = (place) => {
    const times = JSON.parse(place.dataset.times);
    const counts = JSON.parse(place.dataset.counts);
    const names = JSON.parse(place.dataset.names);
    const step = times.length > 1 ? times[1] - times[0] : 3600;
    if (!counts.some((one) => one.some(Boolean))) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    // Each series is drawn with those below it, the highest first, so that the lower ones cover their part of it.
    const sums = names.map((_, kind) => counts.map((one) => one.slice(0, kind + 1).reduce((a, b) => a + b, 0)));
    const order = names.map((_, kind) => names.length - 1 - kind);
    // A column stands to the right of its time, so a place belongs to the time before it, not to the closest.
    const owner = (closest, value) => (closest > 0 && times[closest] > value ? closest - 1 : closest);
    const go = (first, last) => {
      location.href = `${place.dataset.link}&since=${iso(times[first])}&until=${iso(times[last] + step)}`;
    };
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const chart = new uPlot(
      {
        width: place.clientWidth,
        height: place.clientHeight - LEGEND,
        scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] }, x: { range: (_, low, high) => [low - step, high + step] } },
        axes: [{ ...axis, values: (_, all) => all.map((one) => tick(new Date(one * 1000))) }, { ...axis, size: 56, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6] }],
        cursor: { y: false, points: { show: false }, drag: { setScale: false, x: true, y: false }, dataIdx: (_, __, closest, value) => owner(closest, value) },
        series: [
          { value: (_, at) => (at === null ? "" : `${day(new Date(at * 1000))} ${clock(new Date(at * 1000))}`), label: "From" },
          ...order.map((kind) => ({
            label: names[kind],
            stroke: colour(COLOURS[kind]),
            fill: colour(COLOURS[kind]),
            width: 0,
            points: { show: false },
            paths: uPlot.paths.bars({ size: [0.8, 60], align: 1 }),
            value: (_, __, ___, index) => (index === null ? "–" : counts[index][kind]),
          })),
        ],
        hooks: {
          setSelect: [
            (one) => {
              if (one.select.width < 4) return;
              const at = (left) => owner(one.posToIdx(left), one.posToVal(left, "x"));
              go(at(one.select.left), at(one.select.left + one.select.width));
            },
          ],
        },
      },
      [times, ...order.map((kind) => sums[kind])],
      place,
    );
    chart.over.addEventListener("click", () => {
      const { idx, left } = chart.cursor;
      if (idx === null || idx === undefined || chart.select.width >= 4) return;
      const index = owner(idx, chart.posToVal(left, "x"));
      go(index, index);
    });
    place.chart = chart; // so that others can ask it where a time is
    return chart;
  };

  for (const place of document.querySelectorAll(".chart")) {
    place.hidden = false;
    const drag = place.parentElement.querySelector(".drag");
    let chart = draw(place);
    place.hidden = !chart;
    if (drag) drag.hidden = !chart;
    if (!chart) continue;
    new ResizeObserver(() => chart.setSize({ width: place.clientWidth, height: place.clientHeight - LEGEND })).observe(place);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      chart.destroy();
      chart = draw(place);
    });
  }
})();
