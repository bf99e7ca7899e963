// Draws the charts in the colours of the style sheet, and again when light turns to dark.
(function () {
  "use strict";
  var options = { displayModeBar: false, responsive: true };

  function resolved(value, style) {
    if (typeof value === "string") {
      return value.indexOf("--") === 0 ? style.getPropertyValue(value).trim() : value;
    }
    if (Array.isArray(value)) {
      return value.map(function (item) { return resolved(item, style); });
    }
    if (value && typeof value === "object") {
      var copy = {};
      Object.keys(value).forEach(function (key) { copy[key] = resolved(value[key], style); });
      return copy;
    }
    return value;
  }

  function draw() {
    var style = getComputedStyle(document.documentElement);
    document.querySelectorAll("script[data-chart]").forEach(function (source) {
      var place = document.getElementById(source.dataset.chart);
      var figure = resolved(JSON.parse(source.textContent), style);
      Plotly.react(place, figure.data, figure.layout, options);
    });
  }

  draw();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
