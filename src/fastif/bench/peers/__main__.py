"""The command: run the libraries, print the table, write JSON."""

import argparse
import json
from pathlib import Path

from fastif.bench.peers import __doc__ as description
from fastif.bench.peers import run, table
from fastif.bench.peers.catalogue import PEERS


def main(arguments: list[str] | None = None) -> None:
    """Run the libraries that are asked for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[peer.name for peer in PEERS])
    parser.add_argument("--examples", type=int, default=1400)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/bench/peers"))
    options = parser.parse_args(arguments)
    result = run(
        options.out, only=options.only, examples=options.examples, queries=options.queries, threads=options.threads
    )
    print(table(result))
    path = options.out / "peers.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"Written to {path}")


if __name__ == "__main__":
    main()
