"""What the comparison looks like in print: the table, who is ahead of whom, and the section of the documentation.

Knows the rows as plain data, so that it can write the page again from a file long after the run.
"""

from typing import Any

Row = dict[str, Any]
LEVEL = 1.1  # ratio of times up to which two are level: repeats of a run differ by that much, and more under load
DIGITS = 4  # of Pearson's correlation, in print and where two are compared


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
        quality = f"{row['pearson_ggn']:.{DIGITS}f} | {row['pearson_hessian']:.{DIGITS}f}"
        lines.append(f"| {row['library']} | {row['method']} | {times} | {memory} | {quality} |")
    if failed:
        lines += ["", "Without scores:", ""]
        lines += [f"- {row['library']}, {row['method']}: {row['failed']}." for row in failed]
    return "\n".join(lines)


def seconds(value: float) -> str:
    """Return seconds with two digits that mean something."""
    return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"


def rival(row: Row, rows: list[Row], kind: str) -> Row | None:
    """Return the quickest of fastif's rows whose correlation, as printed, is at least that of another's row."""
    wanted = round(row[f"pearson_{kind}"], DIGITS)
    ours = [one for one in rows if one["library"] == "fastif" and "failed" not in one]
    good = [one for one in ours if round(one[f"pearson_{kind}"], DIGITS) >= wanted]
    return min(good, key=lambda one: float(one["cpu_seconds"]), default=None)


def ratio(row: Row, rows: list[Row], kind: str) -> float:
    """Return another's CPU time over fastif's at equal or better correlation, zero where fastif has none as good."""
    ours = rival(row, rows, kind)
    return 0.0 if ours is None else float(row["cpu_seconds"] / ours["cpu_seconds"])


def own_kind(row: Row) -> str:
    """Return by which exact scores a method is judged: the Hessian's if that is what it stands for."""
    return "hessian" if row["definition"] == "Hessian" else "ggn"


def others(result: dict[str, Any]) -> list[Row]:
    """Return the rows of other libraries that have scores."""
    return [row for row in result["rows"] if row["library"] != "fastif" and "failed" not in row]


def behind(result: dict[str, Any]) -> list[str]:
    """Return the methods of others that are quicker at their correlation, by the definition they stand for."""
    return [name for name, times in own_ratios(result).items() if times < 1 / LEVEL]


def level(result: dict[str, Any]) -> list[str]:
    """Return the methods of others that take about as long as fastif."""
    return [name for name, times in own_ratios(result).items() if 1 / LEVEL <= times <= LEVEL]


def own_ratios(result: dict[str, Any]) -> dict[str, float]:
    """Return the ratio of CPU times for each method of the others, by the definition it stands for."""
    return {f"{row['library']} {row['method']}": ratio(row, result["rows"], own_kind(row)) for row in others(result)}


def standing(result: dict[str, Any]) -> str:
    """Return how fastif stands beside each method of the others, by both kinds of exact scores."""
    lines = [
        "| against | stands for | Gauss-Newton: fastif's | CPU time, theirs / ours | Hessian: fastif's "
        "| CPU time, theirs / ours |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in others(result):
        cells = [f"{row['library']}, {row['method']}", row["definition"]]
        for kind in ("ggn", "hessian"):
            ours = rival(row, result["rows"], kind)
            times = ratio(row, result["rows"], kind)
            word = f"{times:,.2f}x, behind" if times < 1 / LEVEL else f"{times:,.1f}x{', level' * (times <= LEVEL)}"
            cells += ["none as good", "behind"] if ours is None else [ours["method"], word]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def section(result: dict[str, Any]) -> str:
    """Return the section of the page of benchmarks, in Markdown."""
    return "\n\n".join([introduction(result), table(result), verdict(result), given(result)]) + "\n"


def introduction(result: dict[str, Any]) -> str:
    """Return what was measured, on what, and how."""
    problem, limits = result["problem"], result
    definite = "" if problem["damped_hessian_is_positive_definite"] else "not "
    loads = [row["load"] for row in result["rows"] if "load" in row]
    least, most = min(loads, default=0.0), max(loads, default=0.0)
    threads = f"{limits['threads']} thread" + "s" * (limits["threads"] > 1)
    share = 100 * problem["damping"] / problem["gauss_newton_largest"]
    command = f"fastif bench peers --examples {problem['examples']} --queries {problem['queries']}"
    return f"""## Beside other libraries

A perceptron ({" - ".join(map(str, problem["widths"]))}, {problem["parameters"]:,} parameters) trained on
{problem["examples"]:,} of scikit-learn's handwritten digits ({problem["train_accuracy"]:.1%} right on them,
{problem["query_accuracy"]:.1%} on the queries); scores of all of them for {problem["queries"]} other digits. Every
library is installed into an environment of its own, and every method runs in a process of its own, with
{threads}, at most {limits["seconds_allowed"]:,.0f} s and {limits["bytes_allowed"] / 2**30:.0f} GiB.
Times go from the loaded model and data to all scores, after a first run on a
tiny problem, which imports what torch and the library import late; runs below 20 s are the best of three. Memory
added is the peak of the process less what it held before it started. Measured on {result["hardware"]}, which did other
work as well ({least:.1f} to {most:.1f} processes at a time, these included): compare the CPU times (user and system).

Pearson's correlation is that with exact scores, solved densely in float64 at damping {problem["damping"]:.3g}
({share:.2g} % of the largest eigenvalue of the Gauss-Newton matrix, {problem["gauss_newton_largest"]:.3g}; the damped
Hessian is {definite}positive definite), for each query over all examples, averaged over queries: once with the
Gauss-Newton matrix, once with the Hessian, as libraries differ in which of the two they mean.

    {command}"""


def verdict(result: dict[str, Any]) -> str:
    """Return where fastif is ahead and where it is not."""
    losses, ties, count = behind(result), level(result), len(others(result))
    text = f"fastif is ahead of {count - len(losses) - len(ties)} of {count} methods"
    text += f", level with {len(ties)} ({'; '.join(ties)})" if ties else ""
    text += f", and behind {len(losses)}: {'; '.join(losses)}." if losses else "."
    return f"""Each method beside the quickest of fastif's with at least its correlation (to {DIGITS} digits). By the
exact scores of what it stands for, the Hessian or else Gauss-Newton, {text}

{standing(result)}"""


def how(row: Row) -> str:
    """Return how a method says that it worked, where it does."""
    said = row.get("notes", {}).get("method")
    return f"; {said}" if said else ""


def given(result: dict[str, Any]) -> str:
    """Return what each method was given, and the versions."""
    lines = ["| library | method | stands for | given |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {row['library']} | {row['method']} | {row['definition']} | {row['given']}{how(row)} |"
        for row in result["rows"]
        if "given" in row
    ]
    versions: dict[str, str] = {}
    for row in result["rows"]:
        found = row.get("versions")
        if found and row["library"] not in versions:
            versions[row["library"]] = ", ".join(f"{name} {version}" for name, version in found.items())
    versions["fastif"] = f"{versions.get('fastif', '')}, fastif {result['fastif']}".removeprefix(", ")
    listed = "\n".join(f"- {library}: {text}" for library, text in versions.items())
    remarks = "\n".join(f"- {name}: {text}." for name, text in result.get("remarks", {}).items())
    return "What each was given:\n\n" + "\n".join(lines) + f"\n\nVersions:\n\n{listed}\n\nRemarks:\n\n{remarks}"
