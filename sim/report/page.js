/* Sorts tables by a click on a column's title. Without it everything is there, in the order of the result. */
document.querySelectorAll("table").forEach(function (table) {
  var heads = table.querySelectorAll("thead th");
  var body = table.tBodies[0];
  function keyOf(row, column) {
    var cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : parseFloat(cell.dataset.v);
  }
  function sort(column) {
    var first = heads[column].getAttribute("aria-sort");
    var numeric = body.rows.length > 0 && body.rows[0].cells[column].dataset.v !== undefined;
    var descending = first ? first === "ascending" : numeric;
    var rows = Array.from(body.rows);
    rows.sort(function (a, b) {
      var x = keyOf(a, column), y = keyOf(b, column);
      var order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return descending ? -order : order;
    });
    heads.forEach(function (head) { head.removeAttribute("aria-sort"); });
    heads[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    rows.forEach(function (row) { body.appendChild(row); });
  }
  if (body.rows.length < 2) return;
  heads.forEach(function (head, column) {
    var button = document.createElement("button");
    button.type = "button";
    button.append.apply(button, Array.from(head.childNodes));
    head.appendChild(button);
    button.addEventListener("click", function () { sort(column); });
  });
});
