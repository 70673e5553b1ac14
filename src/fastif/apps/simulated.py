"""What steps of a simulator came to: the change of its loss by kind of example and learning rate. Knows no model."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fastif.apps.answers import RIGHT, WRONG, groups, in_words

# of which kind a step should lower the simulator's loss most, by what the task model is about the query
EXPECTED = {RIGHT: "helpful", WRONG: "harmful"}


@dataclass(frozen=True)
class Simulated:
    """Losses of a simulator on what the task model predicts, after one step on one example.

    Args:
        kinds: of examples: "helpful", "harmful", and "random, <label>" for each label.
        rates: learning rates.
        losses: (queries, kinds, points, rates).
        before: the loss of each query before any step.
        right: whether the task model is right about each query.
        train_agreement: the share of training examples of which simulator and task model say the same.
        query_agreement: that share of the queries.
    """

    kinds: tuple[str, ...]
    rates: tuple[float, ...]
    losses: Tensor
    before: Tensor
    right: tuple[bool | None, ...]
    train_agreement: float
    query_agreement: float

    @property
    def changes(self) -> Tensor:
        """The change of the loss, (queries, kinds, points, rates)."""
        return self.losses - self.before[:, None, None, None]

    @property
    def points(self) -> int:
        """How many examples of each kind steps were taken on."""
        return self.losses.shape[2]

    def curves(self) -> dict[str, Tensor]:
        """Return mean, lowest and highest change over the points, each (queries, kinds, rates)."""
        changes = self.changes
        return {"mean": changes.mean(dim=2), "lowest": changes.amin(dim=2), "highest": changes.amax(dim=2)}

    def at_best(self) -> Tensor:
        """Return the lowest change of each kind's mean over all learning rates, (queries, kinds)."""
        return self.curves()["mean"].amin(dim=2)

    def best_kinds(self) -> list[str]:
        """Return, for each query, the kind whose steps lower the loss most, each at its best learning rate."""
        return [self.kinds[kind] for kind in self.at_best().argmin(dim=1).tolist()]

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        curves, best = self.curves(), self.best_kinds()
        return {
            "kinds": list(self.kinds),
            "rates": list(self.rates),
            "points": self.points,
            "train_agreement": self.train_agreement,
            "query_agreement": self.query_agreement,
            "queries": [
                {
                    "right": self.right[query],
                    "loss": float(self.before[query]),
                    "best_kind": best[query],
                    "changes": {
                        kind: {name: curve[query, row].tolist() for name, curve in curves.items()}
                        for row, kind in enumerate(self.kinds)
                    },
                }
                for query in range(len(self.right))
            ],
            "groups": self.by_group(),
            "summary": self.in_words(),
        }

    def by_group(self) -> list[dict[str, Any]]:
        """Return, for each group of queries, the change of the loss by kind, and how often each kind was the best."""
        best, lowest, every = self.best_kinds(), self.at_best(), self.changes.mean(dim=(2, 3))
        return [
            {
                "group": group,
                "queries": len(rows),
                "at_best_rate": self._by_kind(lowest[rows]),
                "over_all_rates": self._by_kind(every[rows]),
                "best": {kind: sum(best[row] == kind for row in rows.tolist()) for kind in self.kinds},
            }
            for group, rows in groups(self.right).items()
        ]

    def in_words(self) -> list[str]:
        """Return in plain sentences what was seen."""
        told = [
            f"The simulator says what the model says of {self.train_agreement:.1%} of the training examples and of "
            f"{self.query_agreement:.1%} of the queries."
        ]
        for found in self.by_group():
            listed = "; ".join(f"{kind} {change:+.4f}" for kind, change in found["at_best_rate"].items())
            told.append(
                f"{in_words(found['group']).capitalize()} ({found['queries']}): change of the simulator's loss by one "
                f"step at the best learning rate of each kind, mean over {self.points} examples: {listed}."
            )
            expected = EXPECTED.get(found["group"])
            if expected is not None:
                told.append(
                    f"The paper expects {expected} examples to lower it most there: they do for "
                    f"{found['best'][expected]} of {found['queries']}."
                )
        return told

    def _by_kind(self, values: Tensor) -> dict[str, float]:
        return dict(zip(self.kinds, values.mean(dim=0).tolist(), strict=True))
