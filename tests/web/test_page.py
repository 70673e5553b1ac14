"""The page as one file: nothing is left to load, and no text of the data can end the script or the data."""

import base64
import gzip
import hashlib
import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import fastif
from fastif.web.export import write_export
from fastif.web.page import joined_script, single_file, static_names, static_text
from fastif.web.payload import make_payload
from tests.web.runs import EVIL, content, write_run


def test_nothing_is_left_to_load(tmp_path: Path) -> None:
    page = single_file(make_payload(content(tmp_path / "run")).as_bytes())
    assert not re.search(r'(src|href)="(?!#|data:,")', page)
    assert "import {" not in page


def test_the_policy_allows_this_script_and_style_alone(tmp_path: Path) -> None:
    page = single_file(b"")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")
    script = re.search(r'<script type="module">(.*)</script>', page, re.S)
    style = re.search(r"<style>(.*)</style>", page, re.S)
    assert script is not None
    assert style is not None
    for found in (script[1], style[1]):
        digest = base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_texts_are_nowhere_in_the_page_as_they_are(tmp_path: Path) -> None:
    payload = make_payload(content(tmp_path / "run", hostile=True))
    page = single_file(payload.as_bytes())
    assert EVIL not in page
    assert "window.pwned" not in page
    data = re.search(r'id="payload">([^<]*)<', page)
    assert data is not None
    assert gzip.decompress(base64.b64decode(data[1])) == payload.as_bytes()


def test_no_module_reads_a_string_as_html() -> None:
    for name in static_names():
        if name.endswith(".js"):
            code = static_text(name)
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
                assert word not in code, (name, word)


def test_the_joined_script_is_a_program(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the syntax of the joined script was not checked")
    file = tmp_path / "page.mjs"
    file.write_text(joined_script())
    subprocess.run([node, "--check", str(file)], check=True)


def test_the_export_says_what_it_embeds(tmp_path: Path) -> None:
    run = content(tmp_path / "run")
    written = write_export(make_payload(run), tmp_path / "out" / "page.html")
    assert written.bytes == (tmp_path / "out" / "page.html").stat().st_size
    assert f"embeds {written.train_texts} training texts and 12 evaluation texts" in written.in_words()
    redacted = write_export(make_payload(run, redact=True), tmp_path / "page.html")
    assert "embeds no training text" in redacted.in_words()


def test_the_same_run_makes_the_same_bytes(tmp_path: Path) -> None:
    run = content(tmp_path / "run")
    assert single_file(make_payload(run).as_bytes()) == single_file(make_payload(run).as_bytes())


def test_a_notebook_gets_a_frame_that_cannot_reach_it(tmp_path: Path) -> None:
    shown = fastif.show(write_run(tmp_path / "run", hostile=True), height=500)
    words = shown._repr_html_()
    frame = re.fullmatch(r'<iframe sandbox="([^"]*)" [^<>]*srcdoc="([^"]*)"></iframe>', words, re.S)
    assert frame is not None
    assert "allow-same-origin" not in frame[1]
    assert html.unescape(frame[2]) == shown.page
