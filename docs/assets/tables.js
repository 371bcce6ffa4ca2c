// Long tables get a filter field, and columns that sort on a click.
(function () {
  const LONG = 30;

  function value(cell) {
    const text = cell.textContent.trim();
    const number = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  }

  function compare(a, b) {
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === "number" ? -1 : 1;
  }

  function sort(table, column, header) {
    const descending = header.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => compare(value(a.cells[column]), value(b.cells[column])));
    if (descending) rows.reverse();
    table.tBodies[0].append(...rows);
  }

  function enhance(table) {
    if (!table.tHead || table.tBodies[0].rows.length < LONG || table.closest("details")) return;
    table.dataset.sortable = "";
    Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
      header.addEventListener("click", () => sort(table, column, header));
    });
    const field = document.createElement("input");
    field.type = "search";
    field.className = "table-filter";
    field.placeholder = "Filter rows";
    field.setAttribute("aria-label", "Filter rows");
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
    const outer = table.closest(".md-typeset__scrollwrap") || table;
    outer.before(field);
  }

  document.querySelectorAll(".md-content table").forEach((table) => {
    if (table.tHead && table.tHead.textContent.trim()) enhance(table);
  });
})();
