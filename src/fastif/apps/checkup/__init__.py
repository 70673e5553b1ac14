"""Will this model work, and what memory and time will it need?"""

from fastif.apps.checkup.advice import advise
from fastif.apps.checkup.estimate import Estimate, Stage, estimate
from fastif.apps.checkup.examine import Finding, Level, examine

__all__ = ["Estimate", "Finding", "Level", "Stage", "advise", "estimate", "examine"]
