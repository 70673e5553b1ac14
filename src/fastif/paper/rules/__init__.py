"""By what rule each claim of the paper is judged, from the result of its experiment.

Every rule compares means with limits through their 95 % intervals (`verdicts.py`), and says in a sentence what it saw.
`analysis` has those of Section 5 of the paper, `applications` those of Section 6. Which claims there are is in
`claims.py`, and what the paper says in `figures_of_the_paper.py`.
"""
