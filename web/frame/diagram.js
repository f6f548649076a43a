// Draws what the page sends, {text, dark}; answers {height} or {problem}.

const drawing = document.getElementById("drawing");
let n = 0;

function tellHeight() {
  parent.postMessage({ height: Math.ceil(drawing.getBoundingClientRect().height) }, "*");
}

async function draw({ text, dark }) {
  const { mermaid } = globalThis;
  mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: dark ? "dark" : "neutral", fontFamily: "system-ui, sans-serif", suppressErrorRendering: true });
  try {
    const { svg } = await mermaid.render(`drawing-${++n}`, text);
    drawing.innerHTML = svg;
    tellHeight();
  } catch (error) {
    parent.postMessage({ problem: String(error.message || error) }, "*");
  }
}

addEventListener("message", ({ source, data }) => { if (source === parent) draw(data); });
addEventListener("resize", tellHeight);
parent.postMessage({ ready: true }, "*");
