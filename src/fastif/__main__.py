"""`python -m fastif`: the command line, or what to install for it."""

import sys


def main() -> int:
    """Run the command line."""
    try:
        from fastif.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.stderr.write("The command line needs typer and rich: pip install 'fastif[cli,hf]'\n")
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
