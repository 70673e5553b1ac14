"""Evaluation points: as many as there are, where fewer are wrong than wanted."""

from fastif.paper.points import some_wrong


def test_wrong_points_are_all_there_are_or_as_many_as_wanted(laboratory):
    model, table = laboratory.models.get("hans"), laboratory.data.some(laboratory.data.hans_test())
    every = some_wrong(model, table, len(table))
    assert 2 < len(every) == int((~model.is_right(model.examples(table))).sum())
    few = some_wrong(model, table, 2)
    assert few.lines == every.lines[:2]
    assert len(some_wrong(model, table.take([]), 2)) == 0
