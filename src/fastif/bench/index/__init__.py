"""How large an index two processes build and search, and what it finds of what an exact search finds.

    fastif bench index --points 2000000

The points are drawn from a mixture fitted to real features (mixture.py), a few thousand at a time: they are nowhere all
at once, neither in memory nor on disk. Each process of one thread builds and searches its own files (`FaissShards`), as
with an explainer of several processes. Knows how processes are started; what each does is in rank.py.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastif.bench.index.mixture import CHUNK, Mixture, nearness, real_features
from fastif.bench.scaling import started
from fastif.measuring.words import markdown, seconds, size


@dataclass(frozen=True)
class Plan:
    """What is built and searched.

    Args:
        points: in the index.
        queries: drawn from the same mixture.
        factory: of faiss.
        probes: lists that a search looks into.
        training: points that lists and codes are learned from.
        processes: of one thread each.
        candidates: how many are taken, before what is exact.
        features: real ones that the mixture is fitted to.
        components: of the mixture.
        rank: strong directions of each.
    """

    points: int = 2_000_000
    queries: int = 100
    factory: str = "IVF512,PQ64"
    probes: int = 64
    training: int = 20_000
    processes: int = 2
    candidates: Sequence[int] = (10, 100, 1000, 10_000)
    features: int = 4000
    components: int = 32
    rank: int = 64


def run(plan: Plan, features: Path) -> dict[str, Any]:
    """Build, search, compare with an exact search, and return the figures; `features` is a file for the real ones."""
    real = real_features(plan.features, features)
    mixture = Mixture.fit(real, components=plan.components, rank=plan.rank)
    drawn = mixture.chunk(CHUNK, len(real))
    with tempfile.TemporaryDirectory() as place:
        mixture.save(Path(place) / "mixture.safetensors")
        asked = {**asdict(plan), "place": place}
        found = started(plan.processes, "fastif.bench.index.rank", asked, team=plan.processes > 1)
    likeness = {"dimensions": real.shape[1], "real": nearness(real), "drawn": nearness(drawn)}
    return {"plan": asdict(plan), "nearness": likeness, **found}


def table(result: dict[str, Any]) -> str:
    """Return the figures as markdown."""
    plan, near = result["plan"], result["nearness"]
    true = sorted({row["of"] for row in result["rows"]})
    by = {(row["candidates"], row["of"]): row["recall"] for row in result["rows"]}
    rows = [
        [f"{taken:,}", *(f"{by[taken, of]:.3f}" if (taken, of) in by else "-" for of in true)]
        for taken in plan["candidates"]
    ]
    recall = markdown(["candidates taken", *(f"of the {of:,} nearest" for of in true)], rows)
    times = [
        ["learning lists and codes", seconds(result["learn_s"])],
        [
            f"adding {plan['points']:,} points, drawing them and the sample to learn from included",
            seconds(result["build_s"]),
        ],
        [f"one search, the mean of {plan['queries']}, 1,000 candidates", seconds(result["search_s"] / plan["queries"])],
        [
            f"one exact search, the mean of {plan['queries']} in one pass, drawing the points included",
            seconds(result["exact_s"] / plan["queries"]),
        ],
        ["files of the index", size(result["index_bytes"])],
        ["most memory of each process (VmHWM), built and searched", ", ".join(map(size, result["peak_bytes"]))],
    ]
    note = (
        f"{plan['points']:,} points of {near['dimensions']} dimensions from a mixture of {plan['components']} Gaussians"
        f" with {plan['rank']} strong directions, fitted to {plan['features']:,} mean states of all-mpnet-base-v2 "
        f"on sentences of SST-2. The distance to the nearest of {plan['features']:,}, over that to any: "
        f"{near['real']:.2f} for real ones, {near['drawn']:.2f} for drawn ones. {plan['factory']!r} with "
        f"{plan['probes']} probes, learned from {plan['training']:,} points; {plan['processes']} processes, one thread."
    )
    return "\n\n".join([recall, markdown(["what", "figure"], times), note])
