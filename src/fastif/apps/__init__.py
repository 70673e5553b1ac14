"""Questions that people ask, answered with the engine."""
