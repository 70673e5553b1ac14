"""Scores: checked when made, unchanged after, and never read back wrong, whatever happens to the files."""

import copy
import dataclasses
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys

import pandas
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastif.errors import ConfigurationError, DataError, EmptyDataError, NonFiniteError, ShapeError, StoredFileError
from fastif.files import json_sha256
from fastif.scores import FORMAT_VERSION, Scores

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def scores(draw, fewest=0, most=6):
    rows, columns = draw(st.integers(0, 5)), draw(st.integers(fewest, most))
    dtype, width = draw(st.sampled_from([(torch.float32, 32), (torch.float64, 64)]))
    row = st.lists(st.floats(-(2.0**100), 2.0**100, width=width), min_size=columns, max_size=columns)
    values = torch.tensor([draw(row) for _ in range(rows)], dtype=dtype).reshape(rows, columns)
    if draw(st.booleans()):
        ids = torch.arange(columns).expand(rows, columns)
    else:
        distinct = st.lists(st.integers(0, 2**62), min_size=columns, max_size=columns, unique=True)
        ids = torch.tensor([draw(distinct) for _ in range(rows)], dtype=torch.int64).reshape(rows, columns)
    return Scores(values, ids, draw(st.dictionaries(st.text(), json_values, max_size=4)))


def make(seed=0, queries=3, candidates=4, **provenance):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(queries, candidates, generator=generator)
    ids = torch.stack([torch.randperm(50, generator=generator)[:candidates] for _ in range(queries)])
    return Scores(values, ids, {"solver": "cg", "damping": 0.01, **provenance})


def same(first, second):
    return (
        torch.equal(first.values, second.values)
        and first.values.dtype == second.values.dtype
        and torch.equal(first.train_ids, second.train_ids)
        and first.provenance == second.provenance
    )


# ---- making ----------------------------------------------------------------------------------------------------------


def test_says_which_query_and_training_id_is_not_finite():
    values = torch.zeros(3, 4)
    values[1, 2] = float("nan")
    values[2, 0] = float("inf")
    ids = torch.arange(100, 104).expand(3, 4)
    with pytest.raises(NonFiniteError, match="query 1 and training id 102 is nan"):
        Scores(values, ids)
    with pytest.raises(NonFiniteError, match="query 1 and training id 100 is inf"):
        Scores(values[1:].nan_to_num(nan=0.0, posinf=float("inf")), ids[1:])


def test_says_which_id_is_repeated_or_negative():
    ids = torch.tensor([[0, 1, 2], [5, 9, 5]])
    with pytest.raises(DataError, match="id 5 occurs twice in the row of query 1"):
        Scores(torch.zeros(2, 3), ids)
    with pytest.raises(DataError, match="id 7 occurs twice in the row of query 0"):
        Scores(torch.zeros(2, 2), torch.tensor([7, 7]).expand(2, 2))
    for negative in ([[3, -4]], [[-4, 3]]):
        with pytest.raises(DataError, match="-4 is negative"):
            Scores(torch.zeros(1, 2), torch.tensor(negative))


def test_checks_hold_in_every_block_of_rows(monkeypatch):
    monkeypatch.setattr("fastif.scores._BLOCK", 4)  # of two rows each
    ids = torch.arange(10).reshape(5, 2)
    ids[4] = 3
    with pytest.raises(DataError, match="row of query 4"):
        Scores(torch.zeros(5, 2), ids)
    values = torch.zeros(5, 2)
    values[4, 1] = float("nan")
    with pytest.raises(NonFiniteError, match="query 4 and training id 9"):
        Scores(values, torch.arange(10).reshape(5, 2))


@pytest.mark.parametrize(
    ("values", "ids", "error", "text"),
    [
        ([[1.0]], [[0]], DataError, "values is a list"),
        (torch.zeros(1, 1), [[0]], DataError, "train_ids is a list"),
        (torch.zeros(3), torch.arange(3), ShapeError, "one shape"),
        (torch.zeros(2, 3), torch.arange(3), ShapeError, "one shape"),
        (torch.zeros(1, 2, 2), torch.arange(4).reshape(1, 2, 2), ShapeError, "one shape"),
        (torch.zeros(1, 3), torch.arange(3, dtype=torch.int32)[None], DataError, "int64"),
        (torch.zeros(1, 3), torch.arange(3.0)[None], DataError, "int64"),
        (torch.zeros(1, 3, dtype=torch.int64), torch.arange(3)[None], DataError, "float32 or float64"),
        (torch.zeros(1, 3, dtype=torch.bfloat16), torch.arange(3)[None], DataError, "float32 or float64"),
        (torch.zeros(1, 3, device="meta"), torch.arange(3)[None], DataError, "values is on meta"),
        (torch.zeros(1, 3), torch.arange(3, device="meta")[None], DataError, "train_ids is on meta"),
    ],
)
def test_form_is_checked(values, ids, error, text):
    with pytest.raises(error, match=text):
        Scores(values, ids)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), torch.tensor(1.0), object(), {1, 2}, b"bytes"])
def test_provenance_that_json_cannot_hold_is_refused_at_once(value):
    with pytest.raises(ConfigurationError, match="JSON can hold"):
        Scores(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.int64), {"key": {"deep": [value]}})


def test_does_not_change_when_the_maker_goes_on():
    values, ids = torch.ones(2, 2, requires_grad=True), torch.tensor([[0, 1], [2, 3]])
    provenance = {"solver": {"name": "cg"}}
    made = Scores(values, ids, provenance)
    with torch.no_grad():
        values.zero_()
    ids.zero_()
    provenance["solver"]["name"] = "lissa"
    assert made.values.tolist() == [[1, 1], [1, 1]]
    assert not made.values.requires_grad
    assert made.train_ids.tolist() == [[0, 1], [2, 3]]
    assert made.provenance == {"solver": {"name": "cg"}}


def test_a_maker_can_give_its_tensor_away():
    values, ids = torch.ones(2, 2), torch.tensor([[0, 1], [2, 3]])
    made = Scores(values, ids, copy=False)
    assert made.values.data_ptr() == values.data_ptr()
    assert made.train_ids.data_ptr() == ids.data_ptr()


def test_is_frozen():
    made = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.values = torch.zeros(3, 4)
    with pytest.raises(TypeError):
        made.provenance["solver"] = "exact"


@pytest.mark.parametrize("ids", [torch.arange(1000).expand(300, 1000), torch.arange(1000).repeat(300, 1)])
def test_equal_rows_of_ids_take_the_memory_of_one(ids, tmp_path):
    made = Scores(torch.zeros(300, 1000), ids)
    assert torch.equal(made.train_ids, torch.arange(1000).repeat(300, 1))
    assert made.train_ids.untyped_storage().nbytes() == 8 * 1000
    made.save(tmp_path / "scores")
    assert (tmp_path / "scores.safetensors").stat().st_size < 4 * 300 * 1000 + 8 * 1000 + 1000
    assert Scores.load(tmp_path / "scores").train_ids.untyped_storage().nbytes() == 8 * 1000


@given(scores())
def test_length_repr_and_copies(made):
    assert len(made) == made.values.shape[0]
    assert len(repr(made)) < 120
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), dataclasses.replace(made)):
        assert same(made, other)


def test_repr():
    assert repr(make()) == "Scores(3 queries x 4 training examples, float32, values from -2.18 to 1.54)"
    empty = Scores(torch.zeros(0, 1, dtype=torch.float64), torch.zeros(0, 1, dtype=torch.int64))
    assert repr(empty) == "Scores(0 queries x 1 training example, float64)"


# ---- merging, aggregating, tables ------------------------------------------------------------------------------------


@given(st.integers(0, 4).flatmap(lambda k: st.lists(scores(fewest=k, most=k), min_size=1, max_size=4)))
def test_merge_is_concatenation(parts):
    before = [copy.deepcopy(part) for part in parts]
    merged = Scores.merge(parts)
    assert torch.equal(merged.values, torch.cat([part.values for part in parts]))
    assert torch.equal(merged.train_ids, torch.cat([part.train_ids for part in parts]))
    assert all(same(part, kept) for part, kept in zip(parts, before, strict=True))
    if all(part.provenance == parts[0].provenance for part in parts):
        assert merged.provenance == parts[0].provenance
    else:
        expected = [{"queries": len(part), "provenance": dict(part.provenance)} for part in parts]
        assert merged.provenance["parts"] == expected


def test_merge_keeps_what_the_parts_agree_on():
    merged = Scores.merge([make(seed=0, rank=0), make(seed=1, rank=1, extra=None)])
    assert {**merged.provenance, "parts": None} == {"solver": "cg", "damping": 0.01, "parts": None}
    assert [part["provenance"]["rank"] for part in merged.provenance["parts"]] == [0, 1]


def test_merge_does_not_share_memory_with_a_part_nor_unfold_equal_ids():
    part = Scores(torch.zeros(2, 3), torch.arange(3).expand(2, 3))
    for merged in (Scores.merge([part]), Scores.merge([part, part])):
        assert merged.train_ids.untyped_storage().nbytes() == 8 * 3
        merged.values.add_(1)
        assert part.values.abs().sum() == 0


def test_merge_refuses_nothing_and_other_widths():
    with pytest.raises(EmptyDataError, match="no scores to merge"):
        Scores.merge([])
    with pytest.raises(ShapeError, match=r"\[4, 5\]"):
        Scores.merge([make(candidates=4), make(candidates=5)])


@given(scores(fewest=1), st.data())
def test_aggregate_is_the_mean_of_a_slice(made, more):
    shared = Scores(made.values, torch.arange(made.values.shape[1]).flip(0).expand_as(made.values), made.provenance)
    names = more.draw(st.lists(st.sampled_from("abc"), min_size=len(made), max_size=len(made)))
    result = shared.aggregate(names)
    assert list(result) == list(dict.fromkeys(names))
    table = pandas.DataFrame(made.values.double().numpy()).groupby(pandas.Series(names, dtype=object)).mean()
    for name, part in result.items():
        assert part.values.dtype == made.values.dtype
        assert torch.equal(part.train_ids, shared.train_ids[:1])
        tolerance = torch.finfo(made.values.dtype).eps
        scale = float(made.values.abs().max()) + 1e-300
        assert ((part.values[0].double() - torch.tensor(table.loc[name])) / scale).abs().max() <= 4 * tolerance
        assert part.provenance == {**made.provenance, "aggregate": {"slice": name, "queries": names.count(name)}}


def test_aggregate_refuses_rows_of_different_ids_and_says_which():
    ids = torch.tensor([[0, 1], [2, 3], [0, 1], [1, 0]])
    made = Scores(torch.ones(4, 2), ids)
    assert made.aggregate(["a", "b", "a", "c"])["a"].train_ids.tolist() == [[0, 1]]
    with pytest.raises(DataError, match="Queries 0 and 3 of slice 'a' do not share"):
        made.aggregate(["a", "b", "a", "a"])
    with pytest.raises(DataError, match="3 slice names for 4 queries"):
        made.aggregate(["a", "b", "c"])


@given(scores())
def test_to_pandas_has_one_row_a_pair(made):
    table = made.to_pandas()
    assert list(table.columns) == ["query", "train_id", "score"]
    expected = [
        (query, made.train_ids[query, k].item(), made.values[query, k].item())
        for query in range(len(made))
        for k in range(made.values.shape[1])
    ]
    assert list(table.itertuples(index=False, name=None)) == expected
    assert table["train_id"].dtype == "int64"


def test_changing_the_table_does_not_change_the_scores():
    made = make()
    kept = copy.deepcopy(made)
    table = made.to_pandas()
    table.loc[:, "score"] = 0.0
    table.loc[:, "train_id"] = 0
    assert same(made, kept)


def test_without_pandas_the_message_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # what makes `import pandas` fail for real
    with pytest.raises(ConfigurationError, match="pip install pandas"):
        make().to_pandas()


# ---- files -----------------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=scores())
def test_load_gives_back_what_was_saved(made, tmp_path):
    made.save(tmp_path / "scores", overwrite=True)
    assert same(Scores.load(tmp_path / "scores"), made)


def test_files_and_directories(tmp_path):
    path = tmp_path / "new" / "deeper" / "run-0.1"
    make().save(str(path))
    assert sorted(file.name for file in path.parent.iterdir()) == ["run-0.1.json", "run-0.1.safetensors"]
    for file in path.parent.iterdir():  # readable by whom any new file is readable
        plain = tmp_path / "plain"
        plain.touch()
        assert file.stat().st_mode == plain.stat().st_mode


def test_what_a_view_holds_is_saved_and_nothing_else(tmp_path):
    values = torch.randn(4, 6).T
    made = Scores(values, torch.arange(24).reshape(4, 6).T, copy=False)
    made.save(tmp_path / "scores")
    assert torch.equal(Scores.load(tmp_path / "scores").values, values)


def test_loaded_scores_do_not_follow_the_file(tmp_path):
    first = make(seed=0)
    first.save(tmp_path / "first")
    make(seed=1).save(tmp_path / "second")
    loaded = Scores.load(tmp_path / "first")
    (tmp_path / "first.safetensors").write_bytes((tmp_path / "second.safetensors").read_bytes())  # in place
    assert same(loaded, first)


@pytest.mark.parametrize("which", ["scores.safetensors", "scores.json"])
def test_never_overwrites_unless_told_to(tmp_path, which):
    (tmp_path / which).write_bytes(b"precious")
    with pytest.raises(StoredFileError, match=f"{which} exists"):
        make().save(tmp_path / "scores")
    assert (tmp_path / which).read_bytes() == b"precious"
    assert len(list(tmp_path.iterdir())) == 1
    make().save(tmp_path / "scores", overwrite=True)
    assert same(Scores.load(tmp_path / "scores"), make())


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(StoredFileError, match=r"scores\.json is missing"):
        Scores.load(tmp_path / "scores")
    make().save(tmp_path / "scores")
    with pytest.raises(StoredFileError, match=r"without either ending"):
        Scores.load(tmp_path / "scores.safetensors")
    (tmp_path / "scores.safetensors").unlink()
    with pytest.raises(StoredFileError, match=r"scores\.safetensors cannot be read"):
        Scores.load(tmp_path / "scores")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StoredFileError, match="could not be written to"):
        make().save(tmp_path / "file" / "scores")


@pytest.mark.parametrize("suffix", ["safetensors", "json"])
def test_every_truncation_is_noticed(tmp_path, suffix):
    make().save(tmp_path / "scores")
    file = tmp_path / f"scores.{suffix}"
    whole = file.read_bytes()
    for length in range(len(whole) - 1):  # the last byte of the json is its newline
        file.write_bytes(whole[:length])
        with pytest.raises(StoredFileError, match=rf"scores\.{suffix}"):
            Scores.load(tmp_path / "scores")


@pytest.mark.parametrize("suffix", ["safetensors", "json"])
@pytest.mark.parametrize("flip", [0x01, 0x10, 0x80])
def test_every_changed_byte_is_noticed_or_changes_nothing(tmp_path, suffix, flip):
    made = make(nested={"list": [1, 2.5, "text", None, True]})
    made.save(tmp_path / "scores")
    file = tmp_path / f"scores.{suffix}"
    whole = file.read_bytes()
    messages = []
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= flip
        file.write_bytes(changed)
        try:
            loaded = Scores.load(tmp_path / "scores")
        except StoredFileError as error:
            messages.append(str(error))
        else:
            assert suffix == "json"  # white space
            assert same(loaded, made)
    assert all(file.name in message for message in messages)
    assert len(messages) == len(whole) if suffix == "safetensors" else len(messages) > 0.6 * len(whole)


def rewrite(path, **changes):
    """Change the json as a program would, its own checksum included, so that only the content is wrong."""
    file = path.with_name(path.name + ".json")
    content = json.loads(file.read_text())
    del content["sha256_of_this"]
    content |= changes
    file.write_text(json.dumps({**content, "sha256_of_this": json_sha256(content)}))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": FORMAT_VERSION + 1}, rf"version {FORMAT_VERSION + 1}, written by a newer fastif.*Upgrade"),
        ({"version": 0}, "damaged"),
        ({"version": "1"}, "damaged"),
        ({"format": "fastif.run"}, "does not describe scores"),
        ({"sha256": "0" * 64}, "does not have the sha256"),
        ({"shape": [4, 3]}, r"says shape \[4, 3\], but .* has \[3, 4\]"),
        ({"dtype": "float64"}, "says dtype float64, but .* has float32"),
    ],
)
def test_a_description_of_something_else_is_refused(tmp_path, changes, text):
    make().save(tmp_path / "scores")
    rewrite(tmp_path / "scores", **changes)
    with pytest.raises(StoredFileError, match=text) as caught:
        Scores.load(tmp_path / "scores")
    assert "scores.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "{}", "\x00", "[" * 100_000, '{"format": "fastif.scores"}'])
def test_a_json_that_is_not_ours_is_refused(tmp_path, text):
    make().save(tmp_path / "scores")
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(StoredFileError, match=r"scores\.json"):
        Scores.load(tmp_path / "scores")


@pytest.mark.parametrize(
    "content",
    [
        {"values": torch.zeros(2, 2)},
        {"values": torch.zeros(2, 2), "train_ids": torch.arange(3)[None]},
        {"values": torch.zeros(2, 2), "train_ids": torch.zeros(2, 2, dtype=torch.int64)},
        {"values": torch.full((2, 2), float("nan")), "train_ids": torch.arange(2)[None]},
        {"values": torch.zeros(2), "train_ids": torch.arange(2)},
    ],
)
def test_intact_tensors_that_are_no_scores_are_refused(tmp_path, content):
    make().save(tmp_path / "scores")
    file = tmp_path / "scores.safetensors"
    safetensors.torch.save_file(content, file)
    rewrite(tmp_path / "scores", sha256=hashlib.sha256(file.read_bytes()).hexdigest(), shape=[2, 2])
    with pytest.raises(StoredFileError, match=r"scores\.safetensors does not hold scores"):
        Scores.load(tmp_path / "scores")


def test_a_pickle_is_never_opened(tmp_path):
    """A pickle that would leave a mark, where the tensors should be and with the right hash."""

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    make().save(tmp_path / "scores")
    for payload in (pickle.dumps(Bomb()), None):
        file = tmp_path / "scores.safetensors"
        if payload is None:
            torch.save({"values": Bomb()}, file)
        else:
            file.write_bytes(payload)
        rewrite(tmp_path / "scores", sha256=hashlib.sha256(file.read_bytes()).hexdigest())
        with pytest.raises(StoredFileError, match="does not hold scores"):
            Scores.load(tmp_path / "scores")
        assert not (tmp_path / "exploded").exists()


# ---- death and full disks: real processes, really killed -------------------------------------------------------------

WRITER = """
import os, resource, signal, sys
import torch
from fastif.scores import Scores

path, trouble = sys.argv[1:]
scores = Scores(torch.full((20, 500), 2.0), torch.arange(500).expand(20, 500), {"run": "second"})
function, _, count = trouble.partition(":")
if function == "limit":  # a write fails half-way, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(count), int(count)))
else:  # dies as by kill -9 in place of the count-th call
    original, left = getattr(os, function), int(count)
    def deadly(*arguments):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)
    setattr(os, function, deadly)
scores.save(path, overwrite=True)
"""


def save_with(trouble, path):
    return subprocess.run(
        [sys.executable, "-c", WRITER, str(path), trouble],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("old", [True, False], ids=["over old scores", "in a new place"])
@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [
        ("fsync:1", "nothing happened"),  # tensors written, not yet on disk
        ("replace:1", "nothing happened"),  # ... not yet in place
        ("fsync:2", "between the files"),  # tensors in place, their directory not yet on disk
        ("replace:2", "between the files"),  # json written, not yet in place
        ("fsync:4", "new"),  # all in place
    ],
)
def test_killed_while_saving(tmp_path, trouble, outcome, old):
    path = tmp_path / "scores"
    first = make(run="first")
    if old:
        first.save(path)
    assert save_with(trouble, path).returncode == -signal.SIGKILL
    if outcome == "new":
        assert Scores.load(path).provenance["run"] == "second"
    elif old and outcome == "nothing happened":
        assert same(Scores.load(path), first)
    else:  # never taken for scores, and the message says what happened
        missing = r"scores\.json is missing"
        with pytest.raises(StoredFileError, match="a save was interrupted between" if old else missing):
            Scores.load(path)
    first.save(path, overwrite=True)  # and it can be done again
    assert same(Scores.load(path), first)


@pytest.mark.skipif(os.name != "posix", reason="needs RLIMIT_FSIZE")
def test_a_write_that_fails_half_way_leaves_the_old_scores_and_no_rubbish(tmp_path):
    path = tmp_path / "scores"
    first = make(run="first")
    first.save(path)
    done = save_with("limit:20000", path)
    assert done.returncode == 1
    assert "StoredFileError: The scores could not be written to" in done.stderr
    assert same(Scores.load(path), first)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["scores.json", "scores.safetensors"]


def test_an_error_between_the_files_is_named_and_leaves_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "scores"
    make(seed=0).save(path)
    original = os.replace

    def fails_for_json(source, target):
        if str(target).endswith(".json"):
            raise PermissionError(13, "Permission denied", str(target))
        original(source, target)

    monkeypatch.setattr(os, "replace", fails_for_json)
    with pytest.raises(StoredFileError, match="Permission denied"):
        make(seed=1).save(path, overwrite=True)
    monkeypatch.undo()
    with pytest.raises(StoredFileError, match="a save was interrupted between"):
        Scores.load(path)
    assert len(list(tmp_path.iterdir())) == 2
