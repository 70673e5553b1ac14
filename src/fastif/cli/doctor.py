"""`fastif doctor`."""


def doctor() -> None:
    """Placeholder."""
