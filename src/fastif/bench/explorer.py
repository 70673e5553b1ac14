"""How quickly the explorer answers a hand, in a browser without a GPU, at the size of the paper's largest graph.

    fastif bench explorer

The page is the single file of `fastif export`, with made-up texts and edges (those of `fastif bench layout`), opened
from disk in the system's Chromium, which draws in software. First picture: from opening the file to the first graph.
Hover, slider and zoom: from the event to the frame that shows its effect, for a zoom to the graph drawn anew (the old
picture, moved, is there before that). Edges are drawn a piece at a time, the strongest first, so that the last of all
400,000 comes later; that time is told too. Memory is what the process of the
page takes (proportional set size), all of the browser's own code included.
"""

import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from fastif.bench.layout import Plan as Size
from fastif.bench.layout import made_up_edges
from fastif.errors import ConfigurationError
from fastif.measuring.words import markdown
from fastif.scores import Scores
from fastif.web.export import write_export
from fastif.web.payload import Payload, assemble
from fastif.web.source import RunContent

SLICES = 4
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
GOALS = {"first_picture": 3000.0, "hover": 50.0, "slider": 300.0, "zoom": 300.0, "memory": 500.0}
WORDS = ("the model", "said", "what nobody", "had read", "before", "the film", "was long", "but good", "to look at")
SEEN = """
async (mark) => {
  while (!performance.getEntriesByName(mark).length) await new Promise((done) => setTimeout(done, 20));
  return performance.getEntriesByName(mark)[0].startTime;
}
"""
# Acts, and waits for the frame that shows what it did.
ACT = """
async (act) => {
  const stage = document.getElementById("stage"), surface = stage.querySelector(".surface");
  const { graph, run, state } = window.fastif;
  const frame = () => new Promise((done) => requestAnimationFrame(() => {
    const channel = new MessageChannel(); // heard after the frame is drawn
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  }));
  const settled = async () => {
    await new Promise((done) => setTimeout(done, 120));
    while (stage.dataset.drawing) await frame();
  };
  const times = [], complete = [], moved = [];
  for (let step = 0; step < act.steps; step += 1) {
    await settled();
    let go;
    if (act.kind === "hover") {
      const node = run.edge_train[step * 7], [x, y] = graph.toScreen(graph.where.x[node], graph.where.y[node]);
      const box = surface.getBoundingClientRect();
      const there = { clientX: box.left + x, clientY: box.top + y };
      go = () => surface.dispatchEvent(new PointerEvent("pointermove", there));
    } else if (act.kind === "slider") {
      const value = [400, 700, 850, 1000][step % 4];
      go = () => { graph.slider.value = value; graph.slider.dispatchEvent(new Event("input")); };
    } else go = () => graph.zoomBy(step % 2 ? 1 / 1.5 : 1.5);
    await frame();
    const drawn = () => performance.getEntriesByName("graph-first").length;
    const before = drawn(), start = performance.now();
    go();
    await frame();
    if (act.kind === "zoom") {
      moved.push(performance.now() - start); // the old picture, moved
      while (drawn() === before) await frame(); // drawn anew
      await frame();
    }
    times.push(performance.now() - start);
    if (act.kind !== "hover") { await settled(); complete.push(performance.now() - start - 120); }
  }
  return { times, complete, moved };
}
"""


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    queries: int = 400
    train_points: int = 112_130
    edges: int = 400_000
    repeats: int = 3
    steps: int = 24
    browser: str | None = None


def made_up_payload(plan: Plan) -> Payload:
    """Return a payload of that size, with made-up texts."""
    edges = made_up_edges(Size(plan.queries, plan.train_points, plan.edges))
    nothing = torch.empty(plan.queries, 0)
    train = [
        {"text": _text(index), "label": ("negative", "positive")[index % 2], "slice": f"source {index % 3}"}
        for index in range(plan.train_points)
    ]
    queries = [
        {
            "text": _text(3 * row),
            "slice": f"slice {row * SLICES // plan.queries}",
            "label": "positive",
            "predicted": ("negative", "positive")[row % 4 > 0],
            "confidence": 0.5 + (row % 50) / 100,
            "right": row % 4 > 0,
        }
        for row in range(plan.queries)
    ]
    content = RunContent("made up", "runs/made-up", {"queries": queries}, Scores(nothing, nothing.long()), train)
    return assemble(content, edges)


def _text(number: int) -> str:
    return " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 13)) + f" {number}"


def run(plan: Plan) -> dict[str, Any]:
    """Measure."""
    browser = find_browser(plan.browser)
    start = time.perf_counter()
    payload = made_up_payload(plan)
    made = time.perf_counter() - start
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "page.html"
        start = time.perf_counter()
        written = write_export(payload, file)
        exported = time.perf_counter() - start
        looked = _look(browser, file, plan)
    return {
        "queries": plan.queries,
        "train_points": plan.train_points,
        "edges": plan.edges,
        "megabytes": written.bytes / 1e6,
        "seconds_to_make": made,
        "seconds_to_write": exported,
        "repeats": plan.repeats,
        "steps": plan.steps,
        "goals": GOALS,
        **looked,
    }


def find_browser(given: str | None = None) -> str:
    """Return the path of a Chromium of the system."""
    found = next((path for name in ([given] if given else BROWSERS) if (path := shutil.which(name))), None)
    if found is None:
        raise ConfigurationError(
            f"there is no browser ({given or ', '.join(BROWSERS)}). Install Chromium (apt install chromium), or name "
            "one with --browser."
        )
    return found


def _look(browser: str, file: Path, plan: Plan) -> dict[str, Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise ConfigurationError("this benchmark needs playwright: pip install playwright.") from error
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=ARGUMENTS)
        firsts: list[float] = []
        wholes: list[float] = []
        for _ in range(plan.repeats):
            page = opened.new_page(viewport={"width": 1280, "height": 800})
            firsts.append(_mark(page, file, "", "graph-first"))
            page.close()
            page = opened.new_page(viewport={"width": 1280, "height": 800})
            wholes.append(_mark(page, file, f"#n={plan.edges}", "graph-done"))
            page.close()
        page = opened.new_page(viewport={"width": 1280, "height": 800})
        _mark(page, file, "", "graph-done")
        acts = {kind: _act(page, kind, plan.steps) for kind in ("hover", "slider")}
        page.evaluate("(all) => window.fastif.state.set({ shown: all })", plan.edges)
        acts["zoom"] = _act(page, "zoom", max(2, plan.steps // 4))
        memory = _memory(opened)
        version = opened.version
        opened.close()
    return {
        "browser": f"Chromium {version}, software rendering",
        "first_picture": {"median": statistics.median(firsts), "worst": max(firsts)},
        "all_edges_drawn": {"median": statistics.median(wholes), "worst": max(wholes)},
        **acts,
        "memory": memory,
    }


def _mark(page: Any, file: Path, state: str, mark: str) -> float:
    """Open the page and return after how many milliseconds it had drawn."""
    page.goto(file.as_uri() + state, wait_until="commit")
    return float(page.evaluate(SEEN, mark))  # not wait_for_function, which the page's policy forbids


def _act(page: Any, kind: str, steps: int) -> dict[str, float]:
    seen = page.evaluate(ACT, {"kind": kind, "steps": steps})
    times = sorted(seen["times"])
    told = {"median": statistics.median(times), "worst": times[-1]}
    told |= {"moved": max(seen["moved"])} if seen["moved"] else {}
    return told | ({"all_edges": max(seen["complete"])} if seen["complete"] else {})


def _memory(browser: Any) -> dict[str, float] | None:
    """Return the memory of the largest process of a page, in MB; None where the system does not tell."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = [size for each in processes if each["type"] == "renderer" and (size := _resident(each["id"])) is not None]
    return {"page": max(sizes)} if sizes else None


def _resident(process: int) -> float | None:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("Pss:")), None)


def table(result: dict[str, Any]) -> str:
    """Return the figures as tables."""
    names: dict[str, tuple[str, Callable[[], float | None]]] = {
        "first_picture": ("first picture, ms", lambda: result["first_picture"]["worst"]),
        "hover": ("hover, ms", lambda: result["hover"]["worst"]),
        "slider": ("slider, ms", lambda: result["slider"]["worst"]),
        "zoom": ("zoom with all edges, ms", lambda: result["zoom"]["worst"]),
        "memory": ("memory of the page, MB", lambda: (result["memory"] or {}).get("page")),
    }
    rows = []
    for name, (words, worst) in names.items():
        value, goal = worst(), result["goals"][name]
        median = result[name].get("median") if result[name] else None
        verdict = "not measured" if value is None else "reached" if value <= goal else "missed"
        rows.append([words, _told(median), _told(value), f"at most {goal:,.0f}", verdict])
    drawn = [result["all_edges_drawn"]["median"], result["slider"]["all_edges"], result["zoom"]["all_edges"]]
    opening, slider, zoom = (f"{each / 1000:.1f} s" for each in drawn)
    size = (
        f"{result['queries']:,} predictions, {result['train_points']:,} training examples, {result['edges']:,} edges; "
        f"{result['browser']}. The file has {result['megabytes']:.1f} MB; its data were made in "
        f"{result['seconds_to_make']:.1f} s, layout included, and written in {result['seconds_to_write']:.1f} s. "
        f"The last of all edges is drawn {opening} after opening, {slider} after the slider, {zoom} after a zoom; the "
        f"page answers all the while. A zoom moves the old picture within {result['zoom']['moved']:.0f} ms."
    )
    return size + "\n\n" + markdown(["", "median", "worst", "goal", ""], rows)


def _told(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
