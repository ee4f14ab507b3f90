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

  document.querySelectorAll("[data-samples]").forEach(samples);
})();
