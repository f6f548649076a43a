// Signs of footnotes lead to their notes, and back.

function goTo(sign) {
  const prose = sign.closest(".prose");
  const label = sign.textContent;
  const signs = [...prose.querySelectorAll(".footnote-ref")].filter((node) => node.textContent === label);
  const inNote = (node) => Boolean(node.closest(".footnote"));
  const other = signs.find((node) => inNote(node) !== inNote(sign));
  if (!other) return;
  other.scrollIntoView({ block: "nearest" });
  other.focus();
}

/** For all of a container. */
export function followFootnotes(container) {
  container.addEventListener("click", ({ target }) => { if (target.matches?.(".footnote-ref")) goTo(target); });
  container.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.matches?.(".footnote-ref")) goTo(event.target); });
}
