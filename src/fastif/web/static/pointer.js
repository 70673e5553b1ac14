// The hand on the graph: hover, click, drag, pinch, wheel, lasso. Knows events; what they do to the graph is the graph's.

export function listenToPointer(graph) {
  const surface = graph.surface;
  const held = new Map();
  let drag = null;
  surface.addEventListener("pointerdown", (event) => {
    surface.setPointerCapture(event.pointerId);
    held.set(event.pointerId, [event.offsetX, event.offsetY]);
    const lasso = event.shiftKey || graph.lassoButton.getAttribute("aria-pressed") === "true";
    drag = { x: event.offsetX, y: event.offsetY, view: graph.state.now.view, lasso, far: false, spread: spread(held) };
    if (lasso) graph.path = [graph.toPlace(event.offsetX, event.offsetY)];
  });
  surface.addEventListener("pointermove", (event) => {
    if (held.has(event.pointerId)) held.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (!drag) return graph.hover(event.offsetX, event.offsetY);
    drag.far ||= Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 3;
    if (held.size === 2) return graph.pinch(drag, spread(held));
    if (drag.lasso) {
      graph.path.push(graph.toPlace(event.offsetX, event.offsetY));
      return graph.drawChosen();
    }
    if (drag.far) graph.pan(drag, event);
    return undefined;
  });
  const end = (event) => {
    held.delete(event.pointerId);
    if (!drag || held.size) return;
    const ended = drag;
    drag = null;
    if (ended.lasso) graph.endLasso();
    else if (!ended.far) graph.choose(event.offsetX, event.offsetY);
  };
  surface.addEventListener("pointerup", end);
  surface.addEventListener("pointercancel", end);
  surface.addEventListener("pointerleave", () => graph.unhover());
  surface.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== surface) return; // the page scrolls
    event.preventDefault();
    graph.zoomBy(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
}

function spread(held) {
  const [one, other] = [...held.values()];
  return other ? Math.hypot(one[0] - other[0], one[1] - other[1]) : 0;
}
