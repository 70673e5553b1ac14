"""`fastif correct` as a user runs it: what it measures, writes and refuses."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fastif.apps.iteration import Iteration, Plan, Sets
from fastif.cli import correct as command
from fastif.cli.app import run
from fastif.integrations.huggingface import TextClassifier
from tests.integrations.huggingface.tiny import LABELS, TEXTS, WORDS, module_of, tokenizer_of

NAMES = {0: "good", 1: "bad", 2: "mixed"}
SETTING = ["--steps", "2", "--draw", "3", "--examples", "2", "--repeats", "2", "--learning-rate", "0.05"]


def sentences(count: int, seed: int) -> list[str]:
    draw = torch.Generator().manual_seed(seed)
    return [
        " ".join(WORDS[int(word)] for word in torch.randint(len(WORDS), (3 + row % 5,), generator=draw))
        for row in range(count)
    ]


def write(path: Path, texts: list[str], labels: list[Any] | None, **columns: list[str]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        names = {"text": texts, **({} if labels is None else {"label": labels}), **columns}
        table.writerow(names)
        table.writerows(zip(*names.values(), strict=True))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, its training data, a finished run, anchors and a test set."""
    path = tmp_path_factory.mktemp("correct")
    module: Any = module_of("bert", dtype=torch.float32)
    module.config.id2label, module.config.label2id = NAMES, {name: number for number, name in NAMES.items()}
    module.save_pretrained(path / "model")
    tokenizer_of("bert").save_pretrained(path / "model")
    write(path / "train.csv", list(TEXTS), [NAMES[label] for label in LABELS])
    for name, count, seed in (("anchors", 12, 1), ("test", 14, 2), ("original", 8, 3)):
        texts = sentences(count, seed)
        labels = [NAMES[row % 3] for row in range(count)]
        write(path / f"{name}.csv", texts, labels, part=["short", "long"] * (count // 2))
    line = ["explain", str(path / "model"), "--train", str(path / "train.csv"), "--query-text", "dull", "--json"]
    assert run([*line, "-o", str(path / "why")]) == 0
    return path


def words(place: Path, *more: str, **files: str) -> list[str]:
    given = {"anchors": "anchors.csv", "test": "test.csv", **files}
    sets = [word for name, file in given.items() for word in (f"--{name}", str(place / file))]
    return ["correct", str(place / "why"), *sets, *SETTING, *more]


def flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_agrees_with_the_library_and_writes_what_it_found(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fix"
    assert run(words(place, "--slice", "part", "--json", "-o", str(out), original="original.csv")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((out / "correction.json").read_text())
    assert [part["title"] for part in told["parts"]] == ["long", "short", "test", "original"]
    assert told["data"]["anchors"]["drawn_from"] == 8
    assert told["data"]["anchors"]["held_out"] == 4
    assert not told["data"]["original"]["is_a_sample_of_the_training_data"]
    assert (out / "correction.png").read_bytes().startswith(b"\x89PNG")
    assert not (out / "parts").exists()

    model = TextClassifier.from_pretrained(place / "model")
    test, original = (
        model.examples(sentences(n, seed), [row % 3 for row in range(n)]) for n, seed in ((14, 2), (8, 3))
    )
    for course in told["courses"]:
        if course["kind"] != "random":
            continue
        plan = Plan(steps=2, examples=2, repeats=1, learning_rate=0.05)
        train = model.examples(TEXTS, LABELS)
        it = Iteration(model, Sets(pool=train, anchors=test, watched={"test": test, "original": original}), plan=plan)
        after = it.look(it.parameters_after("random", [torch.tensor(ids) for ids in course["chosen"]]))
        assert course["loss"][-1][2:] == pytest.approx(after.losses.tolist(), rel=1e-4)
        assert course["accuracy"][-1][2:] == pytest.approx(after.accuracies.tolist())
    assert len(told["courses"]) == 4 * 2
    assert len(told["comparisons"]) == (4 + 3) * 4 * 2


def test_reads_well_on_a_terminal(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words(place)) == 0
    seen = capsys.readouterr()
    assert "Accuracy, at the start and after the last step" in seen.out
    assert "Most often helpful" in seen.out
    assert "2 times one gradient step at rate 0.05 on 2 training examples, chosen for 3 anchors" in flat(seen.out)
    assert "Nothing is written: -o DIR says where to." in seen.out
    assert "a sample of 10 training examples; --original sets it" in flat(seen.err)


def test_a_checkpoint_is_written_only_where_it_helps_or_with_force(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of steps on harmful examples nothing is kept, unless somebody insists; a finished run need not be made again."""
    out = tmp_path / "fix"
    line = words(place, "--kinds", "harmful", "--write", "harmful", "-o", str(out))
    assert run(line) == 0
    seen = flat(capsys.readouterr().out)
    assert "It did not help" in seen or "Every step loses more" in seen
    assert "No checkpoint is written; --force writes it all the same." in seen
    assert not (out / "model").exists()
    before = json.loads((out / "correction.json").read_text())
    assert before["checkpoint"] is None
    assert not before["verdict"]["helps"]
    assert run([*line, "--force", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert after["checkpoint"] == str(out / "model")
    assert after["courses"] == before["courses"]
    assert "as --force asked for it" in after["summary"][-1]
    record = json.loads((out / "model" / "fastif_correction.json").read_text())
    assert record["forced"]
    assert record["rows"] == [
        ids
        for one in before["courses"]
        if one["repeat"] == before["verdict"]["repeat"]
        for ids in one["chosen"][: before["verdict"]["steps"]]
    ]
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == after


def test_steps_too_small_to_turn_a_prediction_do_not_help(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fix"
    wrong = write(tmp_path / "anchors.csv", [f"dull {text}" for text in sentences(12, 1)], ["bad"] * 12)
    line = words(place, "--kinds", "anchors", "--write", "anchors", "--learning-rate", "1e-5", anchors=str(wrong))
    assert run([*line, "-o", str(out)]) == 0
    seen = flat(capsys.readouterr().out)
    assert "That helps." not in seen
    assert "no wrong prediction becomes right. Take larger steps: --learning-rate 0.0003, where it was 1e-05" in seen
    assert not (out / "model").exists()


def test_the_corrected_checkpoint_can_be_explained_and_is_the_measured_model(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fix"
    line = words(place, "--kinds", "anchors,random", "--write", "anchors", "--tolerance", "1", "--force", "--json")
    assert run([*line, "-o", str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    kept = told["verdict"]
    course = next(one for one in told["courses"] if (one["kind"], one["repeat"]) == ("anchors", kept["repeat"]))
    fixed = TextClassifier.from_pretrained(told["checkpoint"])
    test = fixed.examples(sentences(14, 2), [row % 3 for row in range(14)])
    loss = torch.nn.functional.cross_entropy(fixed.logits(test), test.targets)
    assert float(loss) == pytest.approx(course["loss"][kept["steps"]][0], rel=1e-4)
    assert float(loss) != pytest.approx(course["loss"][0][0], rel=1e-3)
    train = str(place / "train.csv")
    assert run(["explain", told["checkpoint"], "--train", train, "--query-text", "dull", "--json"]) == 0
    original = TextClassifier.from_pretrained(place / "model")
    changed = [
        name for name in original.parameters if not torch.equal(fixed.parameters[name], original.parameters[name])
    ]
    assert changed
    assert all(torch.equal(fixed._frozen[name], tensor) for name, tensor in original._frozen.items())


def test_the_record_of_a_training_goes_along(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"trainable": "classifier", "freeze_layers": None, "trained": "the head", "train": {"rows": 10}}
    for file in (place / "model").iterdir():
        (tmp_path / "model").mkdir(exist_ok=True)
        (tmp_path / "model" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model" / "fastif_training.json").write_text(json.dumps(record))
    line = ["explain", str(tmp_path / "model"), "--train", str(place / "train.csv"), "--query-text", "dull", "--json"]
    assert run([*line, "-o", str(tmp_path / "why")]) == 0
    line = words(place, "--kinds", "random", "--write", "random", "--force", "--json", "-o", str(tmp_path / "fix"))
    line[1] = str(tmp_path / "why")
    assert run(line) == 0
    written = json.loads((tmp_path / "fix" / "model" / "fastif_training.json").read_text())
    assert written["trainable"] == "classifier"
    assert written["corrected"]["kind"] == "random"
    assert set(TextClassifier.from_pretrained(tmp_path / "fix" / "model").parameters) == {
        "classifier.weight",
        "classifier.bias",
    }
    capsys.readouterr()


@pytest.mark.parametrize("setting", [["--effect", "retrain"], ["--update", "newton", "--curvature", "start"]])
def test_the_other_effect_and_the_other_update(
    place: Path, setting: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words(place, *setting, "--nearest", "6", "--kinds", "helpful", "--damping", "5", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["plan"]["effect"] == "retrain"
    assert "damping 5, given" in told["how"]
    assert told["plan"]["nearest"] == 6


def test_the_damping_can_be_left_to_be_found(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["explain", str(place / "model"), "--train", str(place / "train.csv"), "--query-text", "dull", "--json"]
    assert run([*line, "--damping", "auto", "-o", str(place / "why")]) == 0  # the same request as without it
    assert run([*line, "--damping", "5", "-o", str(tmp_path / "why")]) == 0
    capsys.readouterr()
    few = ["--steps", "1", "--repeats", "1", "--effect", "retrain", "--kinds", "helpful", "--json"]
    for more, how in (([], "damping 5, given"), (["--damping", "auto"], ", automatic (")):
        line = words(place, *few, *more)
        line[1] = str(tmp_path / "why")
        assert run(line) == 0
        assert how in json.loads(capsys.readouterr().out)["how"]


def test_the_solver_of_the_run_is_taken(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["explain", str(place / "model"), "--train", str(place / "train.csv"), "--query-text", "dull", "--json"]
    assert run([*line, "--solver", "lissa", "-o", str(tmp_path / "why")]) == 0
    capsys.readouterr()
    sets = ["--anchors", str(place / "anchors.csv"), "--test", str(place / "test.csv"), "--draw", "3"]
    few = ["--steps", "1", "--repeats", "1", "--effect", "retrain", "--kinds", "helpful"]
    line = ["correct", str(tmp_path / "why"), *sets, *few]
    assert run([*line, "--damping", "5", "--json"]) == 0
    how = json.loads(capsys.readouterr().out)["how"]
    assert "LiSSA" in how
    assert "damping 5, given" in how
    description = tmp_path / "why" / "run.json"
    description.write_text(description.read_text().replace('"solver": "lissa"', '"solver": "paper"'))
    assert run([*line, "--damping", "5", "-o", str(tmp_path / "corrected")]) == 2
    assert "has a damping of its own" in flat(capsys.readouterr().err)
    assert not (tmp_path / "corrected").exists()


def test_a_run_that_was_stopped_goes_on(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = words(place, "--json")
    assert run([*line, "-o", str(tmp_path / "whole")]) == 0
    capsys.readouterr()
    out = tmp_path / "fix"

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(command, "draw_figure", stop)
        assert run([*line, "-o", str(out)]) == 130
    assert list((out / "parts").glob("*.safetensors"))
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(Iteration, "choose", stop)  # not asked again
        assert run([*line, "-o", str(out)]) == 0
    assert (
        json.loads(capsys.readouterr().out)["courses"]
        == json.loads((tmp_path / "whole" / "correction.json").read_text())["courses"]
    )
    assert run([*line, "-o", str(out), "--steps", "3"]) == 1
    assert "a run of another request" in capsys.readouterr().err


def test_anchors_of_one_class_and_known_texts_are_warned_of(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "anchors.csv", [*sentences(5, 9), TEXTS[0]], ["bad"] * 6)
    line = words(place, "--json")
    line[line.index("--anchors") + 1] = str(tmp_path / "anchors.csv")
    assert run(line) == 0
    seen = capsys.readouterr()
    told, warned = json.loads(seen.out), flat(seen.err)
    assert "Warning: all anchors have the label bad." in warned
    assert "Warning: 1 of 6 examples of anchors stand in the training data too" in warned
    assert len(told["notes"]) == 2


@pytest.mark.parametrize(
    ("more", "message", "status"),
    [
        (["--test", "anchors.csv"], "12 anchors are in the test set too", 1),
        (["--original", "anchors.csv"], "12 examples of anchors stand in original too", 1),
        (
            ["--slice", "part", "--anchors-slice", "middle"],
            "has no row of the slice 'middle'. Its slices are long, short",
            1,
        ),
        (["--slice", "part", "--test-slice", "middle"], "has no row of the slice 'middle'", 1),
        (
            ["--slice", "part", "--test-slice", "long"],
            "test has no row of the slice 'short', of which there are anchors",
            1,
        ),
        (["--slice", "parts"], "has no column 'parts'", 1),
        (["--anchors-slice", "long"], "need --slice", 2),
        (["--anchors", "unknown.csv"], "'great'", 1),
        (["--anchors", "unlabelled.csv"], "label", 1),
        (["--anchors", "one.csv"], "there is one anchor only", 1),
        (["--anchors", "missing.csv"], "there is no such file", 1),
        (["--kinds", "helpful,best"], "there is no kind 'best'", 2),
        (["--kinds", "random"], "--write helpful is not among the --kinds random", 2),
        (["--force"], "without -o there is no place for it", 2),
        (["--learning-rate", "0"], "learning_rate must be a number above 0", 2),
        (["--effect", "magic"], "magic", 2),
    ],
)
def test_failures_are_one_message_and_no_traceback(
    more: list[str], message: str, status: int, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place / "unknown.csv", sentences(4, 5), ["good", "great", "bad", "bad"])
    write(place / "unlabelled.csv", sentences(4, 5), None)
    write(place / "one.csv", ["fine film"], ["good"])
    line = words(place)
    files = [word if not word.endswith(".csv") else str(place / word) for word in more]
    for option, value in zip(files[::2], files[1::2], strict=False):
        if option in line:
            line[line.index(option) + 1] = value
        else:
            line += [option, value]
    line += ["--force"] if more == ["--force"] else []
    assert run(line) == status
    seen = flat(capsys.readouterr().err)
    assert message in seen
    assert "Traceback" not in seen
    assert "Unexpected" not in seen


def test_no_held_out_anchors_no_verdict(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words(place, "--hold-out", "0", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] is None
    assert told["data"]["anchors"]["drawn_from"] == 12


def test_only_a_run_of_explain_will_do(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words(place, "--json", "-o", str(tmp_path / "fix"))) == 0
    line = words(place)
    line[1] = str(tmp_path / "fix")
    assert run(line) == 1
    assert "is a run of correct; give one of fastif explain" in flat(capsys.readouterr().err)


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["correct", "--help"]) == 0
    assert "Example" in capsys.readouterr().out
