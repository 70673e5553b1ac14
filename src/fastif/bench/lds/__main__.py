"""The command: measure the settings, print the tables, write JSON and a picture."""

import argparse
import json
from pathlib import Path

from fastif.bench.lds import __doc__ as description
from fastif.bench.lds.checks import CHECKS
from fastif.bench.lds.measure import measure
from fastif.bench.lds.report import draw, rules_table, settings_table
from fastif.bench.lds.settings import SETTINGS
from fastif.measuring.timing import environment


def main(arguments: list[str] | None = None) -> None:
    """Run the settings that are asked for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {**SETTINGS, **CHECKS}
    parser.add_argument("--setting", nargs="+", default=list(known), choices=list(known))
    parser.add_argument("--subsets", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("out/bench/lds"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    results = []
    for name in options.setting:
        results.append(measure(known[name], subsets=options.subsets, seeds=options.seeds))
        seconds = results[-1]["seconds_training"], results[-1]["seconds_solving"]
        print(f"{name}: trained in {seconds[0]:.0f} s, solved in {seconds[1]:.0f} s", flush=True)
    where = environment("cpu")
    (options.out / "lds.json").write_text(json.dumps({**where, "settings": results}, indent=1) + "\n")
    print(f"\n{settings_table(results)}\n\nShare of the best LDS:")
    for group in (SETTINGS, CHECKS):
        if members := [it for it in results if it["setting"] in group]:
            print(f"\n{rules_table(members)}")
    print(f"\n{where}")
    drawn = draw(results, options.out / "lds.png")
    print(f"Written to {options.out}" + ("" if drawn else "; no picture, as matplotlib is not installed"))


if __name__ == "__main__":
    main()
