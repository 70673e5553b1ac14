"""What to install for a package that is not there: every heavy package is an extra, named by its purpose."""

EXTRAS = {
    "transformers": "hf",
    "tokenizers": "hf",
    "datasets": "hf",
    "pyarrow": "hf",
    "pandas": "hf",
    "matplotlib": "plots",
    "PIL": "plots",
    "faiss": "faiss",
    "fastapi": "web",
    "uvicorn": "web",
    "pydantic": "web",
    "sklearn": "demo",
}


def in_words(error: ModuleNotFoundError, line: list[str]) -> str | None:
    """Return what a command line needs and how to get it; None for a module that no extra brings.

    >>> in_words(ModuleNotFoundError(name="transformers.utils"), ["explain", "model", "--wrong"])
    "fastif explain needs transformers, which is not installed: pip install 'fastif[hf]'"
    """
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    command = next((word for word in line if not word.startswith("-")), "this")
    return f"fastif {command} needs {package}, which is not installed: pip install 'fastif[{EXTRAS[package]}]'"
