"""The measurement as markdown tables and as a picture."""

import itertools
from pathlib import Path
from typing import Any

from fastif.bench.lds.rules import RULES

Result = dict[str, Any]
DRAWN = ("0.5 % of top", "d_eff = 4.5 % of rank", "between 0.5 % of top and d_eff")


def settings_table(results: list[Result]) -> str:
    """Return one row a setting: its size, the best damping, the ceiling."""
    lines = [
        "| setting | parameters | examples | query loss, all / half data | split-half (Spearman-Brown) | best LDS "
        "| best damping / top eigenvalue | d_eff there | gradient dot product |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for it in results:
        best = it["fractions_of_top"].index(it["best_fraction_of_top"])
        low, high = it["lds_interval"][best]
        ceiling = it["ceiling"]
        limit = f"{ceiling['split_half']:.2f} ({ceiling['spearman_brown']:.2f})" if ceiling else "one seed only"
        lines.append(
            f"| {it['setting']} | {it['parameters']:,} | {it['examples']:,} | {it['query_loss_full']:.3f} / "
            f"{it['query_loss_half']:.3f} | {limit} | {it['best_lds']:.3f} [{low:.3f}, {high:.3f}] "
            f"| {100 * it['best_fraction_of_top']:.2g} % | {it['effective_dimension'][best]:.0f} "
            f"| {it['gradient_dot_lds']:.3f} |"
        )
    return "\n".join(lines)


def rules_table(results: list[Result]) -> str:
    """Return one row a rule: its share of the best LDS on each setting, with intervals, and the least of them."""
    lines = [
        "| rule | " + " | ".join(it["setting"] for it in results) + " | least |",
        "| --- |" + " --- |" * (len(results) + 1),
    ]
    for name in RULES:
        cells, shares = [], []
        for it in results:
            row = next((rule for rule in it["rules"] if rule["rule"] == name), None)
            cells.append(f"{row['share_of_best']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" if row else "-")
            shares += [row["share_of_best"]] if row else []
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {min(shares):.3f} |")
    return "\n".join(lines)


def draw(results: list[Result], path: Path) -> bool:
    """Draw LDS over damping, one panel a setting; return False where matplotlib is not installed."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        return False
    columns = min(4, len(results))
    rows = -(-len(results) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(3.4 * columns, 2.9 * rows), squeeze=False, sharey=True)
    for panel, it in itertools.zip_longest(panels.flat, results):
        if it is None:
            panel.set_axis_off()
        else:
            _draw_curve(panel, it)
    for row in panels:
        row[0].set_ylabel("linear datamodeling score")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return True


def _draw_curve(panel: Any, it: Result) -> None:
    low, high = zip(*it["lds_interval"], strict=True)
    panel.fill_between(it["fractions_of_top"], low, high, alpha=0.2, linewidth=0)
    panel.plot(it["fractions_of_top"], it["lds"], label="exact Gauss-Newton")
    panel.axhline(it["gradient_dot_lds"], color="gray", linestyle=":", label="gradient dot product")
    if it["ceiling"]:
        panel.axhline(it["ceiling"]["spearman_brown"], color="gray", linestyle="--", label="ceiling")
    for color, name in zip(("C3", "C1", "C2"), DRAWN, strict=True):
        rule = next(rule for rule in it["rules"] if rule["rule"] == name)
        where = sum(rule["fractions_of_top"]) / len(rule["fractions_of_top"])
        panel.plot([where], [rule["lds"]], "o", color=color, label=name)
    panel.set(xscale="log", title=it["setting"], xlabel="damping / top eigenvalue", ylim=(0, 1))
