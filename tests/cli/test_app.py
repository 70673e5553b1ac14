"""What a person is told when a command fails for want of memory."""

import pytest
import torch

from fastif.cli import app


def test_a_full_gpu_is_told_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has [much] more to say")

    monkeypatch.setattr(app, "app", full)
    assert app.run(["doctor"]) == 1
    said = capsys.readouterr().err
    assert "the GPU has no memory left (CUDA out of memory)" in said
    assert "--memory-budget" in said
    assert "Traceback" not in said
