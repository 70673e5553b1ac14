"""The demo: a data set that the project makes itself, a model that takes a shortcut, and what influence finds.

`words.py` and `data.py` make the data, `story.py` computes, `report.py` draws the page; `cli/demo.py` is the command.
"""
