"""schemathesis, from the server's own OpenAPI: no request makes an error of it, and none gets past its checks."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("fastapi")
pytest.importorskip("schemathesis", reason="the API was not fuzzed: schemathesis is not installed")
import schemathesis
from fastapi import FastAPI
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, response_schema_conformance

from fastif.web.payload import make_payload
from fastif.web.server.app import make_app
from fastif.web.server.guard import Guard
from fastif.web.server.jobs import Report
from tests.web.runs import content

TOKEN, HOST = "a-token-for-tests", "127.0.0.1:8000"
EXAMPLES = 8  # of each operation and mode, and each is asked five times
CAN_BE_WRONG = ("POST /ask", "POST /correct", "POST /marks.parquet", "GET /jobs/{number}", "DELETE /jobs/{number}")
ENDLESS = "/events"  # a stream without an end


def _echo(request: Mapping[str, Any], report: Report) -> None:
    report.found(text=request.get("text"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Guard:
    payload = make_payload(content(tmp_path_factory.mktemp("openapi") / "run", hostile=True))
    workers = {"ask": _echo, "correct": _echo}
    return make_app(payload, token=TOKEN, hosts=[HOST], workers=workers, correction="x")  # type: ignore[arg-type]


def _operations(guarded: Guard) -> list[Any]:
    assert isinstance(guarded.app, FastAPI)
    description = copy.deepcopy(guarded.app.openapi())
    assert description["paths"].pop(ENDLESS)
    schema = schemathesis.openapi.from_dict(description)
    schema.app = guarded
    return [result.ok() for result in schema.get_all_operations()]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_makes_an_error_or_gets_past_the_checks(guarded: Guard, mode: Any) -> None:
    asked = []
    for operation in _operations(guarded):
        if mode is GenerationMode.NEGATIVE and operation.label not in CAN_BE_WRONG:
            continue

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            _ask(case)
            asked.append(case.operation.label)

        ask()
    assert len(asked) > 20
    assert set(CAN_BE_WRONG) <= set(asked)


def _ask(case: Any) -> None:
    right = f"http://{HOST}/{TOKEN}"
    answer = case.call(base_url=right)
    # the last of them wants a 4xx for every request that was made wrong on purpose
    checks = [not_a_server_error, response_schema_conformance, negative_data_rejection]
    case.validate_response(answer, checks=checks)
    assert answer.status_code < 500
    assert case.call(base_url=f"http://{HOST}").status_code in (404, 414)
    assert case.call(base_url=f"http://{HOST}/{TOKEN[:-1]}").status_code in (404, 414)
    assert case.call(base_url=right, headers={"Host": "evil.example:8000"}).status_code == 400
    assert case.call(base_url=right, headers={"Origin": "http://evil.example"}).status_code == 403
