"use strict";
(() => {
  const ROW = 34, BAR = 16, TOP = 44, FOOT = 20, BAND = 540, SHORT = 640;
  const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => "&#" + c.charCodeAt(0) + ";");
  const charts = new Map();

  // Every kind of mark has a shape of its own.
  const SHAPES = {
    created: '<circle r="4"/>',
    write: '<circle r="3" class="m m-write"/>',
    deleting: '<path d="M-4.5-3.5h9L0 4.5z"/>',
    gone: '<path class="m m-gone" d="M-4-4l8 8M4-4l-8 8"/>',
    warning: '<path class="m m-warning" d="M0-5L5 4H-5z"/>',
    refused: '<path class="m m-refused" d="M0-5L5 0 0 5-5 0z"/>',
    fault: '<path class="m m-fault" d="M1.5-6L-4 1h3L-1.5 6 4-1.5H1z"/>',
  };
  const NAMES = {
    created: "created", write: "written", deleting: "marked for deletion", gone: "gone", warning: "warning",
    refused: "refused", fault: "fault",
  };
  const HEAD = 40;
  const PHASES = {
    pending: "pending", unready: "not ready", ready: "ready", succeeded: "succeeded", failed: "failed", there: "exists",
  };

  const fits = (text, room) => {
    const letters = Math.floor(room / 6.7);
    if (text.length <= letters) return text;
    return letters > 3 ? text.slice(0, letters - 1) + "…" : "";
  };

  // Names that are alike differ in their ends.
  const shortened = (name, room) => {
    const letters = Math.floor(room / 7.3), head = Math.ceil(letters * 0.35);
    return name.length <= letters ? name : name.slice(0, head) + "…" + name.slice(head + 1 - letters);
  };

  const names = (chart, room) => '<div class="names" aria-hidden="true">' + chart.lanes.map((lane) =>
    '<div title="' + escaped(lane.k + " " + lane.n) + '">' + escaped(shortened(lane.n, room - 14)) +
    "<small class=quiet>" + escaped(lane.k) + "</small></div>").join("") + "</div>";

  const svg = (x, y, width, height, label, parts) => '<svg ' + (label ? 'role="img" aria-label="' + escaped(label) + '"' : 'aria-hidden="true"') +
    ' width="' + width + '" height="' + height + '" viewBox="' + [x, y, width, height].join(" ") + '">' + parts.join("") + "</svg>";

  // The words of steps and times, above the lanes between two places. A step that began before has its words again.
  const words = (chart, from, to) => {
    const out = [];
    chart.steps.forEach(([x, words], index) => {
      const next = index + 1 < chart.steps.length ? chart.steps[index + 1][0] : to, end = Math.min(next, to);
      if (x >= to || next <= from) return;
      const begin = Math.max(x, from), short = fits(words, Math.max(end - begin - 8, 14)) || words.split(".")[0];
      out.push('<text x="' + (begin + 4) + '" y="14">' + escaped(short) + "<title>" + escaped(words) + "</title></text>");
    });
    let free = 0;
    chart.ticks.forEach(([x, words]) => {
      if (x < free) return;
      free = x + words.length * 6.2 + 4;
      out.push('<text class="tick" x="' + x + '" y="34">' + escaped(words) + "</text>");
    });
    gaps(chart).forEach(([x, words, isFree]) => isFree && out.push(length(x, 34, words)));
    return out;
  };

  const length = (x, y, words) => '<text class="quiet" text-anchor="middle" x="' + x + '" y="' + y + '">' + escaped(words) + "</text>";

  // Gaps, and whether there is room for their lengths between the times.
  const gaps = (chart) => chart.gaps.map(([x, words]) => {
    const half = words.length * 3.2;
    return [x, words, chart.ticks.every(([at, tick]) => at > x + half || at + tick.length * 6 < x - half)];
  });

  // The part of a chart between two places, with the words above it or without.
  const picture = (chart, from, to, label, hasWords) => {
    const bottom = TOP + chart.lanes.length * ROW, height = bottom + FOOT, out = hasWords ? words(chart, from, to) : [];
    const y = (lane) => TOP + lane * ROW + BAR / 2 + 4;
    chart.lanes.forEach((lane, index) => {
      const base = TOP + (index + 1) * ROW - 0.5;
      out.push('<line class="rule" x1="0" x2="' + chart.w + '" y1="' + base + '" y2="' + base + '"/>');
    });
    chart.steps.forEach(([x]) => {
      out.push('<line class="step" x1="' + x + '" x2="' + x + '" y1="4" y2="' + bottom + '"/>');
    });
    chart.lanes.forEach((lane, index) => lane.s.forEach(([x, end, shown]) => {
      const top = y(index) - BAR / 2;
      const box = 'x="' + x + '" y="' + top + '" width="' + (end - x) + '" height="' + BAR + '" rx="2"';
      const words = lane.k + " " + lane.n + ": " + PHASES[shown.p] + (shown.d ? ", marked for deletion" : "") +
        (shown.t ? ", " + shown.t : "");
      out.push("<rect " + box + ' class="span p-' + shown.p + '"><title>' + escaped(words) + "</title></rect>");
      if (shown.d) out.push("<rect " + box + ' class="span deleting"/>');
      const label = shown.t && fits(shown.t, end - x - 6);
      if (label) out.push('<text class="label" x="' + (x + 4) + '" y="' + (top + 12) + '">' + escaped(label) + "</text>");
    }));
    gaps(chart).forEach(([x, words]) => {
      out.push('<rect class="gap" x="' + (x - 3) + '" y="' + (TOP - 4) + '" width="6" height="' + (bottom - TOP + 4) + '"/>');
      for (const side of [-3, 3]) {
        let d = "M" + (x + side) + " " + (TOP - 4);
        for (let down = TOP - 4, turn = 1; down < bottom; down += 6, turn = -turn) d += "l" + 2 * turn + " 6";
        out.push('<path class="zig" d="' + d + '"/>');
      }
      out.push(length(x, bottom + 13, words));
    });
    out.push('<line class="guide" y1="20" y2="' + bottom + '"/>');
    chart.marks.forEach((mark) => out.push('<g class="m" transform="translate(' + mark.x + " " + (y(mark.l) + BAR / 2 + 5) +
      ')">' + SHAPES[mark.k] + "</g>" + (mark.c ? '<text class="count" x="' + (mark.x + 5) + '" y="' + (y(mark.l) + BAR / 2 + 3) +
      '">×' + mark.c + "</text>" : "")));
    out.push('<circle class="ring" r="8"/>');
    const top = hasWords ? 0 : HEAD;
    return svg(from, top, to - from, height - top, label, out);
  };

  // Where a chart is cut so that each part fits on paper: in a silence or before a step, if there is one.
  const cuts = (chart) => {
    const places = chart.gaps.map(([x]) => x).concat(chart.steps.map(([x]) => x - 6));
    const found = [0];
    while (chart.w - found[found.length - 1] > BAND) {
      const start = found[found.length - 1];
      const near = places.filter((x) => x > start + BAND * 0.55 && x <= start + BAND);
      found.push(near.length ? Math.max(...near) : start + BAND);
    }
    return found.concat(chart.w);
  };

  // How wide the column of names is.
  const side = () => Math.min(192, innerWidth * 0.34);

  // A short run takes the room that there is, but its marks stay near each other.
  const spread = (chart, room) => {
    const by = Math.max(Math.min(room, Math.max(2 * chart.w, SHORT)) / chart.w, 1), at = (x) => Math.round(x * by);
    const first = ([x, ...rest]) => [at(x), ...rest];
    return {
      w: at(chart.w), steps: chart.steps.map(first), ticks: chart.ticks.map(first), gaps: chart.gaps.map(first),
      lanes: chart.lanes.map((lane) => ({ ...lane, s: lane.s.map(([x, end, shown]) => [at(x), at(end), shown]) })),
      marks: chart.marks.map((mark) => ({ ...mark, x: at(mark.x) })),
    };
  };

  const draw = (box, onPaper) => {
    const state = charts.get(box), { plain, label, head } = state;
    box.classList.toggle("bands", onPaper);
    head.hidden = onPaper;
    if (onPaper) {
      const places = cuts(plain);
      box.innerHTML = places.slice(1).map((to, index) =>
        '<div class="band">' + names(plain, 120) + picture(plain, places[index], to, label, true) + "</div>").join("");
      return;
    }
    const chart = state.chart = spread(plain, box.parentElement.clientWidth - side() - 4);
    head.innerHTML = "<div>" + svg(0, 0, chart.w, HEAD, "", words(chart, 0, chart.w)) + "</div>";
    head.firstChild.scrollLeft = box.scrollLeft;
    box.innerHTML = names(chart, side()) + picture(chart, 0, chart.w, label, false);
    pick(box, state.picked);
  };

  const pick = (box, index, intoView) => {
    const state = charts.get(box), mark = state.chart.marks[index], svg = box.querySelector("svg");
    if (!mark || !svg) return;
    state.picked = index;
    const guide = svg.querySelector(".guide"), ring = svg.querySelector(".ring");
    const down = TOP + mark.l * ROW + BAR + 9;
    guide.setAttribute("x1", mark.x); guide.setAttribute("x2", mark.x);
    ring.setAttribute("cx", mark.x); ring.setAttribute("cy", down);
    guide.style.visibility = ring.style.visibility = "visible";
    const lane = state.chart.lanes[mark.l];
    const step = state.chart.steps.filter(([x]) => x <= mark.x).pop();
    // The lane of faults has no kind, and no object.
    const object = lane.k && lane.k + " " + lane.n;
    state.info.innerHTML = "<b>" + escaped(mark.t) + "</b> " + escaped(mark.by) + ": " + escaped(mark.w) +
      ' <span class="quiet">(' + escaped(NAMES[mark.k] + (!object || mark.w.startsWith(object + " ") ? "" : " " + object)) +
      ", resourceVersion " + mark.rv + ", mark " + (index + 1) + " of " + state.chart.marks.length + ")" +
      (step ? "<br>step " + escaped(step[1]) : "") + "</span>";
    if (intoView) {
      const left = box.querySelector(".names").offsetWidth, at = left + mark.x;
      if (at < box.scrollLeft + left + 20 || at > box.scrollLeft + box.clientWidth - 20) {
        box.scrollLeft = at - (box.clientWidth + left) / 2;
      }
    }
  };

  // The mark nearest to one in the next lane above or below that has marks.
  const beside = (chart, picked, by) => {
    const from = chart.marks[picked];
    if (!from) return undefined;
    for (let lane = from.l + by; lane >= 0 && lane < chart.lanes.length; lane += by) {
      const found = chart.marks.map((mark, index) => [Math.abs(mark.x - from.x), index]).filter(([, index]) => chart.marks[index].l === lane);
      if (found.length) return found.reduce((best, one) => one[0] < best[0] ? one : best)[1];
    }
    return undefined;
  };

  const nearest = (box, event, reach) => {
    const svg = box.querySelector("svg"), place = svg.getBoundingClientRect();
    const x = event.clientX - place.left, y = event.clientY - place.top + HEAD;
    let best = -1, least = reach * reach;
    charts.get(box).chart.marks.forEach((mark, index) => {
      const dx = mark.x - x, dy = (TOP + mark.l * ROW + BAR + 2 - y) * 0.7, far = dx * dx + dy * dy;
      if (far <= least) { best = index; least = far; }
    });
    return best;
  };

  const show = (body, name) => {
    const data = JSON.parse(document.getElementById("d" + body.dataset.n).textContent);
    const out = ['<p class="quiet">source: ' + escaped(data.source) + "</p>"];
    const text = (title, content) => "<h3>" + title + "</h3>" + content;
    const pre = (content, kind) => '<pre tabindex="0"' + (kind ? ' class="' + kind + '"' : "") + ">" + content + "</pre>";
    const coloured = (diff) => diff.split("\n").map((line) => {
      const kind = line[0] === "+" ? "plus" : line[0] === "-" ? "minus" : "";
      return "<i" + (kind ? ' class="' + kind + '"' : "") + ">" + (escaped(line) || " ") + "</i>";
    }).join("");
    if (data.failure) out.push(text("What went wrong", pre(data.failure.includes("\n@@ ") ? coloured(data.failure) : escaped(data.failure))));
    // The page has them side by side as HTML.
    if (data.sides) out.push("<h3>Side by side</h3>" + data.sides);
    if (data.chart.lanes.length) {
      const label = "Lanes of " + name + ": " + data.chart.marks.length + " events. Arrow keys go from one to the next, and from lane to lane.";
      out.push('<div class="chart"><div class="head" aria-hidden="true"></div><div class="lanes" tabindex="0" aria-label="' + escaped(label) + '"></div>' +
        '<output class="info quiet">Point at a mark, tap it, or go from one to the next with the arrow keys.</output></div>');
    }
    if (data.log) out.push('<p>Its log: <a href="' + escaped(data.log) + '">' + escaped(data.log) + "</a>; <code>kubeproof replay " +
      escaped(data.log) + "</code> runs it again.</p>");
    // Lines are elements, and their indentation too, so that a phone can wrap them.
    const marked = (golden) => pre(golden.split("\n").map((line) => {
      const rest = line.trimStart(), content = "<u>" + line.slice(0, line.length - rest.length) + "</u>" + escaped(rest);
      return "<i>" + (line[0] === "►" ? "<b>" + content + "</b>" : content) + "</i>";
    }).join(""), "golden");
    if (data.transcript) out.push(text("This run", marked(data.transcript)));
    for (const side of data.compared || []) {
      out.push('<details class="whole"><summary>' + escaped(side.title) + ", the whole text</summary>" + marked(side.text) + "</details>");
    }
    body.innerHTML = out.join("");
    const box = body.querySelector(".lanes");
    if (!box) return;
    const head = body.querySelector(".head");
    charts.set(box, { plain: data.chart, label: box.getAttribute("aria-label"), head, info: body.querySelector(".info"), picked: -1 });
    draw(box, false);
    box.addEventListener("scroll", () => { head.firstChild.scrollLeft = box.scrollLeft; });
    box.addEventListener("pointermove", (event) => {
      const found = nearest(box, event, 14);
      if (found >= 0) pick(box, found);
    });
    box.addEventListener("click", (event) => {
      const found = nearest(box, event, 40);
      if (found >= 0) pick(box, found);
    });
    box.addEventListener("keydown", (event) => {
      const { chart, picked } = charts.get(box), last = chart.marks.length - 1;
      const to = { ArrowRight: Math.min(picked + 1, last), ArrowLeft: Math.max(picked - 1, 0), Home: 0, End: last,
        ArrowUp: beside(chart, picked, -1), ArrowDown: beside(chart, picked, 1) }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      pick(box, to, true);
    });
  };

  const fill = (details) => {
    const body = details.querySelector(".body");
    if (details.open && body && !body.firstChild) show(body, details.id);
  };
  document.querySelectorAll(".one[open]").forEach(fill);

  // The address: which scenario is open, and behind a question mark the filter.
  const query = document.getElementById("query"), failed = document.getElementById("failed");
  const place = () => {
    const [name, filters] = location.hash.slice(1).split("?");
    return [decodeURIComponent(name), new URLSearchParams(filters)];
  };
  const go = (name) => {
    const filters = new URLSearchParams();
    if (query.value.trim()) filters.set("filter", query.value.trim());
    if (failed.checked) filters.set("failed", "");
    const text = filters.toString();
    history.replaceState(null, "", "#" + encodeURIComponent(name).replace(/%2F/g, "/") + (text ? "?" + text : ""));
  };
  document.addEventListener("toggle", (event) => {
    const one = event.target;
    if (!one.classList.contains("one")) return;
    fill(one);
    if (one.open && one.dataset.by === "hand") go(one.id);
    delete one.dataset.by;
  }, true);
  document.addEventListener("click", (event) => {
    const summary = event.target.closest(".one > summary");
    if (summary) summary.parentElement.dataset.by = "hand";
  });
  const open = () => {
    const [name, filters] = place();
    query.value = filters.get("filter") || "";
    failed.checked = filters.has("failed");
    filter();
    const details = document.getElementById(name);
    if (!details || !details.classList.contains("one")) return;
    details.open = true;
    fill(details);
    details.scrollIntoView();
  };

  addEventListener("resize", () => charts.forEach((_, box) => draw(box, false)));
  addEventListener("beforeprint", () => charts.forEach((_, box) => draw(box, true)));
  addEventListener("afterprint", () => charts.forEach((_, box) => draw(box, false)));

  const filter = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const nothing = document.getElementById("nothing");
    nothing.hidden = true;
    let all = 0;
    document.querySelectorAll("section.area").forEach((area) => {
      let shown = 0;
      area.querySelectorAll(".one").forEach((one) => {
        const text = one.querySelector("summary").textContent.toLowerCase();
        one.hidden = !words.every((word) => text.includes(word)) || (failed.checked && !one.classList.contains("failed"));
        shown += one.hidden ? 0 : 1;
      });
      const count = area.querySelector("small");
      count.textContent = shown === Number(count.dataset.all) ? count.dataset.all : shown + " of " + count.dataset.all;
      area.hidden = !shown;
      all += shown;
    });
    nothing.textContent = words.length ? "No " + (failed.checked ? "failed " : "") + "scenario has all these words in its name or title."
      : "No scenario has failed.";
    nothing.hidden = all > 0;
  };
  const filtered = () => { filter(); go(place()[0]); };
  query.addEventListener("input", filtered);
  failed.addEventListener("change", filtered);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target === query) return;
    event.preventDefault();
    query.focus();
  });
  addEventListener("hashchange", open);
  open();
})();
