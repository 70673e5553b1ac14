"""Pictures for a page are small files that can be read at the width of a page."""

import pytest
from matplotlib.figure import Figure
from PIL import Image

from fastif.integrations.plots import style


@pytest.mark.parametrize(("inches", "pixels"), [(16, 1200), (8, 1200), (4, 640)])
def test_a_small_picture_is_no_wider_than_a_page_and_keeps_rare_colours(inches, pixels, tmp_path):
    with style.look():
        figure = Figure(figsize=(inches, 3))
        axes = figure.subplots()
        axes.fill_between([0, 1], [0, 0], [1, 1], color=style.HELPFUL)
        axes.plot([0, 1], [0, 1], color=style.HARMFUL)
    style.save(figure, tmp_path / "usual")
    style.save_small(figure, tmp_path / "small.png")
    with Image.open(tmp_path / "small.png") as image:
        assert image.width == pixels
        assert image.mode == "P"
        found = {colour for _, colour in image.convert("RGB").getcolors()}
    wanted = tuple(int(style.HARMFUL[place : place + 2], 16) for place in (1, 3, 5))
    assert min(max(abs(one - two) for one, two in zip(each, wanted, strict=True)) for each in found) < 8
    assert (tmp_path / "small.png").stat().st_size < (tmp_path / "usual.png").stat().st_size


def test_a_picture_that_is_large_has_fewer_colours(tmp_path):
    figure = Figure(figsize=(2, 2))
    figure.subplots().imshow([[(7 * row * column) % 101 for column in range(300)] for row in range(300)])
    style.save_small(figure, tmp_path / "usual.png", most=10**9)
    style.save_small(figure, tmp_path / "small.png", most=1000)
    with Image.open(tmp_path / "small.png") as image:
        assert len(image.getcolors()) <= 16
    assert (tmp_path / "small.png").stat().st_size < (tmp_path / "usual.png").stat().st_size
