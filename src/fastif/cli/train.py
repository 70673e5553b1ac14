"""`fastif train`."""


def train() -> None:
    """Placeholder."""
