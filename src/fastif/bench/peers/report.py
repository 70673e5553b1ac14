"""What the comparison looks like in print: the table, who is ahead of whom, and the section of the documentation.

Knows the rows as plain data, so that it can write the page again from a file long after the run.
"""

from typing import Any

Row = dict[str, Any]
MARGIN = 0.005  # of Pearson's correlation: closer than this counts as equal


def table(result: dict[str, Any]) -> str:
    """Return the measured rows as a table in Markdown, the ones that failed below with the reason."""
    done = [row for row in result["rows"] if "failed" not in row]
    failed = [row for row in result["rows"] if "failed" in row]
    lines = [
        "| library | method | CPU time | wall time | memory added | peak memory | Pearson, Gauss-Newton "
        "| Pearson, Hessian |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in done:
        times = f"{seconds(row['cpu_seconds'])} | {seconds(row['seconds'])}"
        memory = f"{row['added_bytes'] / 1e6:,.0f} MB | {row['peak_bytes'] / 1e6:,.0f} MB"
        quality = f"{row['pearson_ggn']:.4f} | {row['pearson_hessian']:.4f}"
        lines.append(f"| {row['library']} | {row['method']} | {times} | {memory} | {quality} |")
    if failed:
        lines += ["", "Without scores:", ""]
        lines += [f"- {row['library']}, {row['method']}: {row['failed']}." for row in failed]
    return "\n".join(lines)


def seconds(value: float) -> str:
    """Return seconds with two digits that mean something."""
    return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"


def best(row: Row) -> float:
    """Return the better of a row's two correlations: nobody is judged by another definition than its own."""
    return float(max(row["pearson_ggn"], row["pearson_hessian"]))


def rival(row: Row, rows: list[Row]) -> Row | None:
    """Return the quickest of fastif's rows with at least the correlation of another's row."""
    good = [
        one for one in rows if one["library"] == "fastif" and "failed" not in one and best(one) >= best(row) - MARGIN
    ]
    return min(good, key=lambda one: float(one["cpu_seconds"]), default=None)


def standing(result: dict[str, Any]) -> str:
    """Return how fastif stands beside each method of the others: at equal or better correlation, the ratio of times."""
    rows = result["rows"]
    others = [row for row in rows if row["library"] != "fastif" and "failed" not in row]
    lines = [
        "| against | its Pearson | fastif's | Pearson | CPU time, theirs / ours |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in others:
        ours = rival(row, rows)
        name = f"{row['library']}, {row['method']}"
        if ours is None:
            lines.append(f"| {name} | {best(row):.4f} | none as good | | |")
            continue
        ratio = row["cpu_seconds"] / ours["cpu_seconds"]
        word = f"{ratio:,.1f}x" if ratio >= 1 else f"**{ratio:,.2f}x: behind**"
        lines.append(f"| {name} | {best(row):.4f} | {ours['method']} | {best(ours):.4f} | {word} |")
    return "\n".join(lines)


def behind(result: dict[str, Any]) -> list[str]:
    """Return the methods of others that are quicker than fastif at their correlation, or better than all of it."""
    found = []
    for row in result["rows"]:
        if row["library"] != "fastif" and "failed" not in row:
            ours = rival(row, result["rows"])
            if ours is None or ours["cpu_seconds"] > row["cpu_seconds"]:
                found.append(f"{row['library']}, {row['method']}")
    return found


def section(result: dict[str, Any]) -> str:
    """Return the section of the page of benchmarks, in Markdown."""
    return "\n\n".join([introduction(result), table(result), verdict(result), given(result)]) + "\n"


def introduction(result: dict[str, Any]) -> str:
    """Return what was measured, on what, and how."""
    problem, limits = result["problem"], result
    definite = "" if problem["damped_hessian_is_positive_definite"] else "not "
    share = 100 * problem["damping"] / problem["gauss_newton_largest"]
    command = f"fastif bench peers --examples {problem['examples']} --queries {problem['queries']}"
    return f"""## Beside other libraries

A perceptron ({" - ".join(map(str, problem["widths"]))}, {problem["parameters"]:,} parameters) trained on
{problem["examples"]:,} of scikit-learn's handwritten digits ({problem["train_accuracy"]:.1%} right on them,
{problem["query_accuracy"]:.1%} on the queries); scores of all of them for {problem["queries"]} other digits. Every
library is installed into an environment of its own, and every method runs in a process of its own, with
{limits["threads"]} thread, at most {limits["seconds_allowed"]:,.0f} s and {limits["bytes_allowed"] / 2**30:.0f} GiB.
Times go from the loaded model and data to all scores, after a run on a tiny
problem, as much is imported at first use; runs below 20 s are the best of three. Memory
added is the peak of the process less what it held before it started. Measured on {result["hardware"]}, which did other
work as well: compare the CPU times (user and system).

Pearson's correlation is that with exact scores, solved densely in float64 at damping {problem["damping"]:.3g}
({share:.2g} % of the largest eigenvalue of the Gauss-Newton matrix, {problem["gauss_newton_largest"]:.3g}; the damped
Hessian is {definite}positive definite), for each query over all examples, averaged over queries: once with the
Gauss-Newton matrix, once with the Hessian, as libraries differ in which of the two they mean.

    {command}"""


def verdict(result: dict[str, Any]) -> str:
    """Return where fastif is ahead and where it is not."""
    losses = behind(result)
    text = "fastif is ahead of every one of them." if not losses else f"fastif is behind: {'; '.join(losses)}."
    return f"""At the better of its two correlations, each method beside the quickest of fastif's that is at least as
good (within {MARGIN}): {text}

{standing(result)}"""


def given(result: dict[str, Any]) -> str:
    """Return what each method was given, and the versions."""
    lines = ["| library | method | stands for | given |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {row['library']} | {row['method']} | {row['definition']} | {row['given']} |"
        for row in result["rows"]
        if "given" in row
    ]
    versions: dict[str, str] = {}
    for row in result["rows"]:
        found = row.get("versions")
        if found and row["library"] not in versions:
            versions[row["library"]] = ", ".join(f"{name} {version}" for name, version in found.items())
    listed = "\n".join(f"- {library}: {text}" for library, text in versions.items())
    remarks = "\n".join(f"- {name}: {text}." for name, text in result.get("remarks", {}).items())
    return "What each was given:\n\n" + "\n".join(lines) + f"\n\nVersions:\n\n{listed}\n\nRemarks:\n\n{remarks}"
