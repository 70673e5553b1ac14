"""Questions that people ask of a model and its training data, answered with influence. Knows no data set by name."""
