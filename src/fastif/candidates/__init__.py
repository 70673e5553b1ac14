"""Which training examples to score: all of them, those with given numbers, or the nearest to each query."""

from fastif.candidates.extremes import Ends, StrongestOnly
from fastif.candidates.given import candidate_ids
from fastif.candidates.index import BuiltIndex, ExactIndex, Index
from fastif.candidates.keys import Features, HeadGradients, Keys
from fastif.candidates.nearest import Candidates, Nearest, Neighbours
from fastif.candidates.parts import IndexPart, PartHolder, Parts, SharedIndex
from fastif.candidates.selection import PerQuery, SameForAll, Selection

__all__ = [
    "BuiltIndex",
    "Candidates",
    "Ends",
    "ExactIndex",
    "Features",
    "HeadGradients",
    "Index",
    "IndexPart",
    "Keys",
    "Nearest",
    "Neighbours",
    "PartHolder",
    "Parts",
    "PerQuery",
    "SameForAll",
    "Selection",
    "SharedIndex",
    "StrongestOnly",
    "candidate_ids",
]
