"use strict";
document.getElementById("who").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = document.getElementById("name").value.trim();
  if (name) location.href = "/r/" + encodeURIComponent(name);
});
