"""All experiments by name.

A new one is a file beside this with `name`, `title`, `run`, `draw` and `table`, and its name in the lines below.
"""

from fastif.errors import ConfigurationError
from fastif.paper import amazon, correlations, hvp, recall, retraining, simulatability, table1, visualization
from fastif.paper.harness import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (table1, recall, hvp, correlations, retraining, simulatability, visualization, amazon)
}
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
