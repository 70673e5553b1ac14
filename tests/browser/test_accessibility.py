"""axe-core finds nothing serious, in light and dark, wide and narrow."""

from typing import Any

import pytest

from tests.browser.conftest import ready, serious

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("width", "scheme", "state"),
    [
        (1280, "light", ""),
        (1280, "dark", "#q=1&marks=5~remove"),
        (390, "light", "#t=5&story=open"),
        (390, "dark", "#q=1&story=open"),
    ],
)
def test_nothing_serious(page: Any, exported: str, axe: str, width: int, scheme: str, state: str) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    ready(page, exported + state)
    assert serious(page, axe) == []
