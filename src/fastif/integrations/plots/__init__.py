"""Pictures, drawn by matplotlib (`pip install fastif[plots]`): one kind of picture a file, one look for all of them."""

try:
    import matplotlib as mpl  # noqa: F401 - said here what to install for it, whichever picture is asked for
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    raise ModuleNotFoundError(
        "pictures are drawn by matplotlib, which is not installed: pip install 'fastif[plots]'", name="matplotlib"
    ) from error
