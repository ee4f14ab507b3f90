"use strict";
(function () {
  var root = document.documentElement;

  // ---- theme ------------------------------------------------------------------------------
  var button = document.getElementById("theme");
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  function remembered() {
    try { return window.localStorage.getItem("cje-theme"); } catch (error) { return null; }
  }

  function remember(name) {
    // a page opened from a file or in a sandbox may have no storage
    try { window.localStorage.setItem("cje-theme", name); } catch (error) { return; }
  }

  function shown() {
    return root.dataset.theme || (dark.matches ? "dark" : "light");
  }

  function label() {
    var other = shown() === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", "Switch to the " + other + " theme");
  }

  var first = remembered();
  if (first === "dark" || first === "light") { root.dataset.theme = first; }
  button.hidden = false;
  label();
  dark.addEventListener("change", label);
  button.addEventListener("click", function () {
    root.dataset.theme = shown() === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
    label();
  });

  // ---- samples ----------------------------------------------------------------------------
  // Text from the data only ever becomes a text node: textContent, never markup.
  var STEP = 25;

  function element(name, className, text) {
    var made = document.createElement(name);
    if (className) { made.className = className; }
    if (text !== undefined) { made.textContent = text; }
    return made;
  }

  function written(column, value) {
    if (value === null) { return "\u2013"; }
    return typeof value === "number" ? value.toFixed(column.digits) : value;
  }

  function textCell(text) {
    var cut = 160;
    if (text.length <= cut) { return element("bdi", "text", text); }
    var details = element("details");
    var head = Array.from(text.slice(0, cut)).slice(0, -1).join("");
    details.appendChild(element("summary", "text", head + "\u2026"));
    details.appendChild(element("div", "text full", text));
    details.firstChild.dir = "auto";
    details.lastChild.dir = "auto";
    return details;
  }

  function compare(column, down, size) {
    return function (a, b) {
      var x = a.values[column], y = b.values[column];
      if (x === null || y === null) { return (x === null) - (y === null) || a.place - b.place; }
      if (size) { x = Math.abs(x); y = Math.abs(y); }
      var order = typeof x === "number" ? x - y : x < y ? -1 : x > y ? 1 : 0;
      return (down ? -order : order) || a.place - b.place;
    };
  }

  function samples(host) {
    var data = JSON.parse(document.getElementById(host.dataset.samples).textContent);
    var rows = data.rows.map(function (values, place) {
      var words = values.map(function (v, k) { return written(data.columns[k], v); });
      return { values: values, place: place, words: words,
               haystack: words.join("\n").toLocaleLowerCase() };
    });
    var state = { column: null, down: true, size: false, find: "", limit: STEP };

    var bar = element("div", "bar-of-tools");
    var find = element("input");
    find.type = "search";
    find.placeholder = "Search these rows";
    find.setAttribute("aria-label", "Search the samples");
    var order = element("select");
    order.setAttribute("aria-label", "Order of the samples");
    data.orders.forEach(function (item, k) {
      var option = element("option", "", item.label);
      option.value = String(k);
      order.appendChild(option);
    });
    var count = element("p", "count");
    count.setAttribute("role", "status");
    bar.append(find, order, count);

    var scroll = element("div", "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Samples");
    var table = element("table");
    var head = element("thead");
    var titles = element("tr");
    data.columns.forEach(function (column, k) {
      var cell = element("th", column.kind === "number" ? "number" : "");
      cell.scope = "col";
      var sorter = element("button", "", column.name);
      sorter.type = "button";
      if (column.says) { sorter.title = column.says; }
      sorter.addEventListener("click", function () {
        state.down = state.column === k && !state.size ? !state.down : column.kind === "number";
        state.column = k;
        state.size = false;
        draw();
      });
      cell.appendChild(sorter);
      titles.appendChild(cell);
    });
    head.appendChild(titles);
    var body = element("tbody");
    table.append(head, body);
    scroll.appendChild(table);
    var more = element("button", "more", "Show more");
    more.type = "button";
    host.append(bar, scroll, more);

    function line(row) {
      var made = element("tr");
      data.columns.forEach(function (column, k) {
        var cell = element("td", column.kind);
        cell.dataset.label = column.name;
        if (column.kind === "text" && row.values[k] !== null) {
          cell.appendChild(textCell(row.words[k]));
        } else {
          cell.appendChild(element("bdi", "", row.words[k]));
        }
        made.appendChild(cell);
      });
      return made;
    }

    function draw() {
      var found = rows.filter(function (row) { return row.haystack.includes(state.find); });
      if (state.column !== null) { found.sort(compare(state.column, state.down, state.size)); }
      body.replaceChildren.apply(body, found.slice(0, state.limit).map(line));
      Array.from(titles.children).forEach(function (cell, k) {
        var way = state.down ? "descending" : "ascending";
        cell.setAttribute("aria-sort", k === state.column ? way : "none");
      });
      more.hidden = found.length <= state.limit;
      var shownRows = Math.min(found.length, state.limit);
      count.textContent = "Showing " + shownRows + " of " + found.length +
        (state.find ? " that match" : " rows");
    }

    function preset() {
      var item = data.orders[Number(order.value)];
      state.column = item.column;
      state.down = true;
      state.size = item.size;
      state.limit = STEP;
      draw();
    }

    find.addEventListener("input", function () {
      state.find = find.value.toLocaleLowerCase();
      state.limit = STEP;
      draw();
    });
    order.addEventListener("change", preset);
    more.addEventListener("click", function () { state.limit += 2 * STEP; draw(); });
    preset();
  }

  // ---- pairs --------------------------------------------------------------------------------
  function pairs(host) {
    var data = JSON.parse(document.getElementById(host.dataset.pairs).textContent);
    var rows = data.rows.map(function (row, place) {
      row.place = place;
      row.haystack = [row.id, row.prompt, row.texts[0], row.texts[1]].join("\n")
        .toLocaleLowerCase();
      return row;
    });
    var found = [], at = 0;

    function choice(words, items) {
      var made = element("select");
      made.setAttribute("aria-label", words);
      items.forEach(function (item) {
        var option = element("option", "", item[1]);
        option.value = item[0];
        made.appendChild(option);
      });
      made.addEventListener("change", search);
      return made;
    }

    function key(column, level) { return column + "\n" + level; }

    var viewer = element("div", "viewer");
    var bar = element("div", "bar-of-tools");
    var find = element("input");
    find.type = "search";
    find.placeholder = "Search prompts and responses";
    find.setAttribute("aria-label", "Search the pairs");
    find.addEventListener("input", search);
    var who = choice("Candidate", data.candidates.map(function (name, k) {
      return [String(k), name];
    }));
    who.hidden = data.candidates.length < 2;
    var levels = [["", "All subgroups"]], seen = {};
    data.columns.forEach(function (column, k) {
      rows.forEach(function (row) {
        var name = key(k, row.groups[k]);
        if (!Object.prototype.hasOwnProperty.call(seen, name)) {
          seen[name] = true;
          levels.push([name, column + " = " + row.groups[k]]);
        }
      });
    });
    var group = choice("Subgroup", levels);
    group.hidden = levels.length < 2;
    var order = choice("Order of the pairs", [
      ["loss", "Largest regression"], ["gain", "Largest gain"], ["size", "Largest difference"],
      ["label", "Human labels first"]
    ]);
    bar.append(find, who, group, order);
    var moves = element("div", "bar-of-tools");
    var back = element("button", "", "Previous"), next = element("button", "", "Next");
    var count = element("p", "count");
    count.setAttribute("role", "status");
    back.type = next.type = "button";
    back.addEventListener("click", function () { move(at - 1); });
    next.addEventListener("click", function () { move(at + 1); });
    moves.append(back, next, count, element("span", "quiet keys", "Keys: \u2190 \u2192 or j k"));
    var page = element("article", "pair");
    page.tabIndex = 0;
    page.setAttribute("aria-label", "Pair of responses; arrow keys or j and k move");
    viewer.append(bar, moves, page);
    host.appendChild(viewer);
    host.classList.add("live");

    function size(row) { return row.gain === null ? 0 : row.gain; }

    function labelled(row) {
      return (row.labels[0] !== null) + (row.labels[1] !== null);
    }

    function sorter(a, b) {
      var way = order.value;
      var gap = way === "gain" ? size(b) - size(a)
        : way === "size" ? Math.abs(size(b)) - Math.abs(size(a))
        : way === "label" ? labelled(b) - labelled(a) || Math.abs(size(b)) - Math.abs(size(a))
        : size(a) - size(b);
      return gap || a.place - b.place;
    }

    function search() {
      var words = find.value.toLocaleLowerCase(), level = group.value;
      found = rows.filter(function (row) {
        return String(row.who) === who.value && row.haystack.includes(words) &&
          (!level || row.groups.some(function (name, k) { return key(k, name) === level; }));
      }).sort(sorter);
      at = 0;
      draw();
    }

    function move(to) {
      at = Math.max(0, Math.min(found.length - 1, to));
      draw();
    }

    function shown(value) { return String(Math.round(value * 1000) / 1000); }

    function side(name, row, k) {
      var made = element("div", "pair-side");
      var title = element("p", "pair-who");
      var bold = element("b");
      bold.appendChild(element("bdi", "", name));
      title.appendChild(bold);
      if (row.labels[k] !== null) {
        title.append(" ", element("span", "mark", "label " + shown(row.labels[k])));
      }
      if (row.scores[k] !== null) {
        title.append(" ", element("span", "quiet", "judge " + shown(row.scores[k])));
      }
      var text = element("div", "pair-text", row.texts[k]);
      text.dir = "auto";
      made.append(title, text);
      return made;
    }

    function draw() {
      back.disabled = at <= 0;
      next.disabled = at >= found.length - 1;
      count.textContent = found.length ? "Pair " + (at + 1) + " of " + found.length : "No pair";
      if (!found.length) {
        page.replaceChildren(element("p", "", "No pair matches."));
        return;
      }
      var row = found[at], gain = size(row);
      var head = element("h4");
      var words = (gain > 0 ? "+" : gain < 0 ? "\u2212" : "") + shown(Math.abs(gain));
      head.appendChild(element("span", gain < 0 ? "loss" : gain > 0 ? "gain" : "", words));
      head.append(" calibrated difference");
      var facts = element("div", "facts-line");
      facts.appendChild(element("bdi", "", "prompt " + row.id));
      data.columns.forEach(function (column, k) {
        facts.appendChild(element("bdi", "", column + " = " + row.groups[k]));
      });
      var sides = element("div", "pair-sides");
      sides.append(side(data.baseline, row, 0), side(data.candidates[row.who], row, 1));
      page.replaceChildren(head, facts);
      if (row.prompt) {
        var prompt = element("div", "pair-prompt", row.prompt);
        prompt.dir = "auto";
        page.appendChild(prompt);
      }
      page.appendChild(sides);
    }

    viewer.addEventListener("keydown", function (event) {
      if (event.altKey || event.ctrlKey || event.metaKey) { return; }
      if (/^(INPUT|SELECT)$/.test(event.target.tagName)) { return; }
      var step = { ArrowRight: 1, j: 1, ArrowLeft: -1, k: -1 }[event.key];
      if (event.key === "Home") { move(0); }
      else if (event.key === "End") { move(found.length - 1); }
      else if (step) { move(at + step); }
      else { return; }
      event.preventDefault();
    });
    search();
  }

  document.querySelectorAll("[data-samples]").forEach(samples);
  document.querySelectorAll("[data-pairs]").forEach(pairs);
})();
