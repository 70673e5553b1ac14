"""All experiments by name.

A new one is a file beside this with `name`, `title`, `run`, `draw` and `table`, and its name in the lines below.
"""

from fastif.errors import ConfigurationError
from fastif.paper import (
    amazon,
    correlations,
    hvp,
    recall,
    retraining,
    simulatability,
    table1,
    visualization,
)
from fastif.paper.correction import augmentation_anli, augmentation_hans, correction_mnli
from fastif.paper.harness import Experiment

_ALL: tuple[Experiment, ...] = (
    table1,
    recall,
    hvp,
    correlations,
    retraining,
    simulatability,
    visualization,
    correction_mnli,
    augmentation_hans,
    augmentation_anli,
    amazon,
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
ALL = "all"


def find(name: str) -> list[Experiment]:
    """Return the experiment of that name, or all of them.

    >>> [experiment.name for experiment in find("table1")]
    ['table1']
    """
    if name == ALL:
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        raise ConfigurationError(f"there is no experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}, or {ALL}.")
    return [EXPERIMENTS[name]]
