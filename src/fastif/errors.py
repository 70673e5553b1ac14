"""Everything that fastif raises or warns about on purpose.

Every text says what was seen, why it matters and what to change, so that a caller may show it to a person as it is.
This file knows nothing of torch: it is the lowest layer.
"""


class FastifError(Exception):
    """Base of every error that fastif raises on purpose."""


class ConfigurationError(FastifError, ValueError):
    """An argument has a value that cannot work, whatever the model and the data."""


class DataError(FastifError, ValueError):
    """The data cannot be used as given."""


class EmptyDataError(DataError):
    """A set of examples or queries has no member."""


class LabelError(DataError):
    """A target is outside the range that the model's outputs allow."""


class ShapeError(DataError):
    """A batch does not have the form that the model, or the training data, has."""


class NonFiniteError(FastifError, ValueError):
    """A NaN or an infinity in the weights, the data, or a result."""


class ModelError(FastifError, ValueError):
    """The module cannot be used as given."""


class NoTrainableParametersError(ModelError):
    """The choice of parameters left none to take influence through."""


class LossError(ModelError):
    """The loss does not give one finite number for each example."""


class SolverError(FastifError, ArithmeticError):
    """(H + damping I) x = v could not be solved."""


class NegativeCurvatureError(SolverError):
    """H + damping I is not positive definite, so that the solution would not be a response of the model."""


class SingularMatrixError(SolverError):
    """H + damping I has no inverse."""


class ConvergenceError(SolverError):
    """An iteration diverged or met a number that is not finite."""


class StoredFileError(FastifError, OSError):
    """A file is missing, damaged, of another kind, or would be overwritten."""


class RankError(FastifError):
    """One of several processes is gone, or failed; the message names it."""


class FastifWarning(UserWarning):
    """Something that a user should know, and that stops nothing."""


class PrecisionWarning(FastifWarning):
    """Part of the work was done in another precision than was asked for."""


class ConvergenceWarning(FastifWarning):
    """An iteration stopped before its tolerance; the result says how far it came."""
