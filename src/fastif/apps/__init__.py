"""Questions that people ask of a model and its training data, one a file."""
