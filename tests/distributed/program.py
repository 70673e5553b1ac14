"""What the processes of a test run: the same questions to a team and to a process alone, compared by the leader."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import fastif
from fastif.distributed import Team, watch
from fastif.prefix import PrefixCache
from fastif.scanning import TOGETHER, Scanner
from fastif.store import RunStore
from tests.integrations.huggingface import tiny
from tests.problems import case, model_of

SOLVERS: dict[str, Any] = {
    "cg": fastif.ConjugateGradient(tolerance=1e-10),
    "preconditioned": fastif.ConjugateGradient(tolerance=1e-10, preconditioner_rank=5),
    "paper": fastif.LiSSA.paper(damp=0.05, scale=20, depth=20, repeats=3),
    "lissa": fastif.LiSSA(depth=20, repeats=3, batch_size=2),
    "woodbury": fastif.Woodbury(),
    "longest rows": fastif.Woodbury(rows=7),
    "by rows": fastif.ConjugateGradient(tolerance=1e-10, preconditioner_rows=7),
    "diverging": fastif.LiSSA(depth=60, repeats=3, batch_size=1, scale=1e-3),
    "exact": fastif.Exact(),
    "identity": fastif.Identity(),
}


small_disk: dict[int, str] = {}  # by rank, a place for states that has no room for them


def problem(name: str, dtype: torch.dtype, device: str = "cpu") -> tuple[Any, Any, Any]:
    """Return a model, its training data and queries."""
    if name == "bert":
        from fastif.integrations.huggingface import TextClassifier

        model = TextClassifier(tiny.module_of("bert", dtype=dtype).to(device), tiny.tokenizer_of("bert"))
        turned = [
            *tiny.TEXTS[1:],
            tiny.TEXTS[0],
        ]  # no text twice: which of two equals is nearer is a matter of rounding
        texts = [
            f"{one} {other}"
            for one, other in [*zip(tiny.TEXTS, turned, strict=True), *zip(turned, tiny.TEXTS, strict=True)]
        ]
        train = model.examples([*tiny.TEXTS, *texts], list(tiny.LABELS) * 3)
        return model, train, model.examples(list(tiny.QUERIES), list(tiny.QUERY_LABELS))
    it = case(name, dtype)
    return model_of(it), it.train, it.queries


def main(asked: dict[str, Any]) -> None:
    """Compare, and print what came out as JSON."""
    dtype = getattr(torch, asked.get("dtype", "float64"))
    options: dict[str, Any] = {
        "solver": SOLVERS[asked["solver"]],
        "curvature": asked.get("curvature", "gauss-newton"),
        "damping": asked.get("damping", 0.3),
        "candidates": fastif.Nearest(6, by=asked["nearest"]) if "nearest" in asked else "all",
    }
    if "decay" in asked:
        options |= {"weight_decay": asked["decay"], "weight_decay_in": "everything"}
    device = asked.get("device", "cpu")
    model, train, queries = problem(asked["case"], dtype, device)
    if "few" in asked:
        train = tuple(column[: asked["few"]] for column in train)
    alone_options = dict(options)
    if "shards" in asked:
        from fastif.integrations.faiss_shards import FaissShards

        index = FaissShards(
            asked["shards"], "IVF2,Flat", probes=2, in_a_file=5
        )  # looks everywhere, so that it is exact
        options["candidates"] = fastif.Nearest(6, by=asked["nearest"], index=index)
    watch.LOST = asked.get("lost", watch.LOST)
    if "small_disk" in asked:
        small_disk[1] = asked["small_disk"]
    if "pause" in asked:
        slowed(asked["pause"], asked.get("fails"))
    with Team.joined(torch.device(device)) as team:
        if asked.get("store") and team.leads:
            with RunStore.begin(Path(asked["store"]), {"asked": "the same"}) as store:
                seen = scored(model, train, queries, team, top=asked.get("top"), keep=store.piece, **options)
        else:
            seen = scored(model, train, queries, team, top=asked.get("top"), **options)
        if "lingers" in asked:
            watch.GRACE = 0.5
            if not team.leads:
                os._exit(9)  # without a word, after all was done
            time.sleep(asked["lingers"])
        if not team.leads:
            return
        fresh = problem(asked["case"], dtype, device)[0]
        alone = ask(fastif.Explainer(fresh, train, **alone_options), queries, asked.get("top"))
        error = float((seen.values - alone.values).abs().max() / alone.values.abs().max())
        sent = {kind: [traffic.calls, traffic.bytes] for kind, traffic in team.sent.items()}
        parameters = sum(tensor.numel() for tensor in fresh.parameters.values())
        found = {"error": error, "ids": torch.equal(seen.train_ids, alone.train_ids), "sent": sent}
        print(json.dumps({**found, "parameters": parameters, "values": seen.values.sum().item()}))


def slowed(seconds: float, fails: int | None) -> None:
    """Take a while over each chunk, so that there is time to kill a process; or fail by itself."""
    original = Scanner._scored
    TOGETHER["cpu"] = 1  # chunk by chunk

    def slow(self: Scanner, *given: Any, **more: Any) -> Any:
        time.sleep(seconds)
        if fails is not None and int(os.environ["RANK"]) == fails:
            raise OSError(28, "No space left on device")
        return original(self, *given, **more)

    Scanner._scored = slow  # type: ignore[method-assign]


def ask(explainer: fastif.Explainer, queries: Any, top: int | None) -> fastif.Scores:
    """Return all scores, or those of the strongest alone."""
    return explainer.scores(queries) if top is None else explainer.explain(queries, top=top, scores="strongest").scores


def scored(model: Any, train: Any, queries: Any, team: Team, *, top: int | None, **options: Any) -> Any:
    """Return the scores, of the leader; None of the others."""
    states = small_disk.get(team.rank)
    cache = PrefixCache() if states is None else PrefixCache(memory=0, directory=states)
    explainer = fastif.Explainer(model, train, team=team, prefix_cache=cache, **options)
    with explainer.led() as leads:
        return ask(explainer, queries, top) if leads else None


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(json.loads(sys.argv[1]))
