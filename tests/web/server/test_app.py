"""The server gives away the run and nothing else, to those who have its address and to nobody else."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi")
from starlette.testclient import TestClient

from fastif.errors import DataError
from fastif.web.page import static_names
from fastif.web.payload import Payload, make_payload
from fastif.web.server.app import make_app
from fastif.web.server.jobs import MOST_WAITING, Report
from fastif.web.server.limits import LARGEST_RATE, LONGEST_QUESTION, MOST_BODY, MOST_MARKS, MOST_MARKS_BODY
from tests.web.runs import EVIL, content

TOKEN = "a-token-for-tests"
HOST = "127.0.0.1:8000"


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> Payload:
    return make_payload(content(tmp_path_factory.mktemp("runs") / "run", hostile=True))


def asker(payload: Payload, **options: Any) -> TestClient:
    app = make_app(payload, token=TOKEN, hosts=[HOST], **options)
    return TestClient(app, base_url=f"http://{HOST}/{TOKEN}/", raise_server_exceptions=False)


@pytest.fixture
def client(payload: Payload) -> Iterator[TestClient]:
    with asker(payload, workers={"ask": _echo}) as made:
        yield made


def _echo(request: Mapping[str, Any], report: Report) -> None:
    report("echoing", 0, 1)
    if request["text"] == "fail":
        raise DataError("this text fails")
    report.found(text=request["text"])


def test_the_page_its_files_and_its_data(client: TestClient, payload: Payload) -> None:
    page = client.get("")
    assert page.status_code == 200
    assert "<script>" not in page.text
    for name in static_names():
        if name != "index.html":
            assert client.get(f"static/{name}").status_code == 200
    assert client.get("data").content == payload.as_bytes()
    assert client.get("data", headers={"accept-encoding": "identity"}).content == payload.as_bytes()


@pytest.mark.parametrize("where", ["", "data", "about", "static/main.js", "jobs/99", "nothing"])
def test_every_answer_has_a_policy_without_inline_script(client: TestClient, where: str) -> None:
    headers = client.get(where).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/data", "/wrong/data", f"/{TOKEN[:-1]}/data", f"/{TOKEN}x/data", "//data"])
def test_without_the_token_there_is_nothing(client: TestClient, path: str) -> None:
    answer = client.get(f"http://{HOST}{path}")
    assert answer.status_code == 404
    assert "fastif serve" in answer.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:8001", ""])
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get("data", headers={"host": host}).status_code == 400


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://evil.example", f"http://{HOST}.evil.example"]
)
def test_another_origin_is_refused(client: TestClient, origin: str) -> None:
    assert client.get("data", headers={"origin": origin}).status_code == 403
    assert client.post("ask", json={"text": "a"}, headers={"origin": origin}).status_code == 403
    assert client.get("about", headers={"origin": f"http://{HOST}"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["static/../app.py", "static/%2e%2e/app.py", "static/..%2f..%2fpayload.py", "static/%2fetc%2fpasswd",
     "static/index.html", "static/main.js%00", "../../etc/passwd", "static/", "run.json", "openapi.json", "docs"],
)  # fmt: skip
def test_no_path_but_the_known_ones(client: TestClient, path: str) -> None:
    assert client.get(f"http://{HOST}/{TOKEN}/{path}").status_code in (404, 405)


def test_bodies_and_addresses_have_a_limit(client: TestClient) -> None:
    assert client.post("ask", content=b"x" * (MOST_BODY + 1)).status_code == 413

    def pieces() -> Iterator[bytes]:  # which says no length beforehand
        for _ in range(20):
            yield b" " * 8192

    assert client.post("ask", content=pieces(), headers={"content-type": "application/json"}).status_code == 413
    assert client.get("static/" + "a" * 2000).status_code == 414
    assert client.get("about?" + "a" * 2000).status_code == 414
    assert client.post("ask", json={"text": "a" * 20_000}).status_code == 422
    longest = {"text": "漢" * LONGEST_QUESTION, "text_pair": "字" * LONGEST_QUESTION}
    body = json.dumps(longest, ensure_ascii=False).encode()
    assert client.post("ask", content=body, headers={"content-type": "application/json"}).status_code == 200


def test_as_many_marks_as_are_allowed_fit_into_a_request(client: TestClient, payload: Payload) -> None:
    from pyarrow import BufferReader, parquet

    ids, label = payload.arrays["train_id"].tolist(), payload.head["classes"][0]
    marks = [{"index": ids[at % len(ids)], "verdict": f"label:{label}"} for at in range(MOST_MARKS)]
    assert len(json.dumps({"marks": marks})) > 10 * MOST_BODY
    answer = client.post("marks.parquet", json={"marks": marks})
    assert answer.status_code == 200
    assert parquet.read_table(BufferReader(answer.content)).num_rows == len(ids)
    assert client.post("marks.parquet", json={"marks": [*marks, marks[0]]}).status_code == 422
    assert client.post("marks.parquet", content=b" " * (MOST_MARKS_BODY + 1)).status_code == 413
    assert client.post("marks.parquet/", content=b" " * (MOST_BODY + 1)).status_code == 413


def test_the_rate_of_a_correction_has_one_limit(payload: Payload) -> None:
    with asker(payload, workers={"correct": lambda request, report: None}, correction="x") as client:
        assert client.get("about").json()["largest_rate"] == LARGEST_RATE
        for rate, status in ((LARGEST_RATE, 200), (LARGEST_RATE * 1.01, 422), (0, 422), (-1, 422), (None, 200)):
            assert client.post("correct", json={"learning_rate": rate}).status_code == status


def _finished(client: TestClient, number: int) -> dict[str, Any]:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        job: dict[str, Any] = client.get(f"jobs/{number}").json()
        if job["state"] not in ("waiting", "running"):
            return job
        time.sleep(0.01)
    raise AssertionError("the job did not end")


def test_a_question_is_answered_and_a_failure_is_told(client: TestClient) -> None:
    about = client.get("about").json()
    assert (about["can"], about["correction"], about["learning_rate"]) == (["ask"], None, None)
    assert about["longest_question"] == LONGEST_QUESTION
    job = _finished(client, client.post("ask", json={"text": "</script>"}).json()["id"])
    assert (job["state"], job["found"]) == ("done", {"text": "</script>"})
    failed = _finished(client, client.post("ask", json={"text": "fail"}).json()["id"])
    assert (failed["state"], failed["error"]) == ("failed", "this text fails")
    assert client.post("ask", json={"text": "  "}).status_code == 422
    assert client.post("ask", json={"text": "a", "more": 1}).status_code == 422
    assert client.post("correct").status_code == 404
    assert client.delete("jobs/999").status_code == 404


def test_marks_come_back_as_parquet(client: TestClient, payload: Payload) -> None:
    from pyarrow import BufferReader, parquet

    ids = payload.arrays["train_id"].tolist()
    other = next(name for name in payload.head["classes"] if name != payload.head["labels"][ids[1] % 2])
    marks = [{"index": ids[0], "verdict": "remove"}, {"index": ids[1], "verdict": f"label:{other}"}]
    answer = client.post("marks.parquet", json={"marks": marks})
    assert answer.status_code == 200
    table = parquet.read_table(BufferReader(answer.content))
    assert [str(kind) for kind in table.schema.types] == ["int64", "int64", "string", "string", "string", "string"]
    first, second = table.to_pylist()
    assert (first["index"], first["action"], first["new_label"]) == (ids[0], "remove", None)
    assert (second["action"], second["new_label"], second["line"]) == ("relabel", other, ids[1] + 2)
    assert second["text"] == payload.text(1)
    assert EVIL in second["text"]
    for wrong in ([{"index": 10**6, "verdict": "keep"}], [{"index": ids[0], "verdict": "burn"}]):
        assert client.post("marks.parquet", json={"marks": wrong}).status_code == 400
    for wrong in ([], "x", [{"index": -1, "verdict": "keep"}]):
        assert client.post("marks.parquet", json={"marks": wrong}).status_code == 422


def test_jobs_wait_can_be_cancelled_and_are_limited(payload: Payload) -> None:
    hold, begun = threading.Event(), threading.Event()

    def slow(request: Mapping[str, Any], report: Report) -> None:
        begun.set()
        while not hold.is_set():
            report("working", 1, 2)
            time.sleep(0.005)

    with asker(payload, workers={"ask": slow}) as client:
        first = client.post("ask", json={"text": "one"}).json()["id"]
        assert begun.wait(10)
        second = client.post("ask", json={"text": "two"}).json()["id"]
        assert client.get(f"jobs/{first}").json()["stage"] == "working"
        assert client.delete(f"jobs/{second}").json()["state"] == "cancelled"
        for _ in range(MOST_WAITING):
            assert client.post("ask", json={"text": "more"}).status_code == 200
        full = client.post("ask", json={"text": "too many"})
        assert full.status_code == 429
        assert "wait already" in full.json()["detail"]
        client.delete(f"jobs/{first}")
        assert _finished(client, first)["state"] == "cancelled"
        hold.set()
        assert _finished(client, first + 2)["state"] == "done"


def test_thirty_two_clients_at_once(client: TestClient, payload: Payload) -> None:
    def ask(number: int) -> int:
        where = ("", "data", "about", "static/graph.js")[number % 4]
        return client.get(where).status_code

    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(ask, range(256))) == {200}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD"]),
    path=st.one_of(
        st.sampled_from(
            ["", "ask", "correct", "about", "data", "static/x", "jobs/1", "jobs/-1", "jobs/99999999999999"]
        ),
        st.text(max_size=30).map(lambda text: text.replace("?", "").replace("#", "")),
    ),
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["text", "text_pair", "label", "x"]), inner, max_size=4)
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_nothing_that_is_asked_makes_an_error_of_the_server(
    client: TestClient, method: str, path: str, body: bytes
) -> None:
    from urllib.parse import quote

    url = f"http://{HOST}/{TOKEN}/{quote(path, safe='/')}"
    answer = client.request(method, url, content=body, headers={"content-type": "application/json"})
    assert answer.status_code < 500
