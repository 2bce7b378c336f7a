"""``workload.yaml``: what it means, and every fault with file, field and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError
from migsaw.trial.spec import digest, read_spec

EXAMPLES = Path(__file__).resolve().parents[1] / "examples/profile"
CATALOGUE = load_catalogue()
GOOD = """\
schema: migsaw/trial/v1
name: t
board: a100-sxm4-80gb
command: [python3, train.py]
read: {regex: {pattern: 'rate ([0-9.]+)'}}
"""


def read(folder: Path, text: str):
    path = folder / "workload.yaml"
    path.write_text(text)
    return read_spec(path, CATALOGUE)


def test_what_is_left_out_has_its_default_and_names_are_the_catalogues(tmp_path):
    spec, board = read(tmp_path, GOOD.replace("a100-sxm4-80gb", "Standard_ND96amsr_A100_v4") + "profiles: [7g.79gb]\n")
    assert (spec.board, board.key, spec.profiles) == ("a100-sxm4-80gb", "a100-sxm4-80gb", ("7g.80gb",))
    assert (spec.processes, spec.floor, spec.identity.facts) == (1, None, {"name": "t"})


def test_a_latency_is_asked_as_the_throughput_that_keeps_it(tmp_path):
    """Two processes, each with 8 samples within 50 ms: 320 samples a second."""
    spec, _ = read(tmp_path, GOOD + "batch: 8\nprocesses: 2\nlimit: {latency_ms: 50}\n")
    assert spec.floor == pytest.approx(320)


def test_the_example_is_right():
    spec, _ = read_spec(EXAMPLES / "workload.yaml", CATALOGUE)
    assert (EXAMPLES / spec.command[1]).is_file()


def test_slots_and_limits_do_not_make_another_trial_but_commands_do(tmp_path):
    one = digest(read(tmp_path, GOOD)[0])
    assert digest(read(tmp_path, GOOD + "profiles: [1g.10gb]\nlimit: {throughput_per_second: 3}\n")[0]) == one
    assert digest(read(tmp_path, GOOD.replace("train.py", "other.py"))[0]) != one


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        (("read: {regex: {pattern: 'rate ([0-9.]+)'}}", "read: {}"), "read", "no way to read"),
        (("}}", "}, mlflow: {metric: m}}"), "read", "2 ways"),
        (("([0-9.]+)", "[0-9.]+"), "pattern", "0 groups"),
        (("([0-9.]+)", "([0-9.]+"), "pattern", "no regular expression"),
        (("[python3, train.py]", "[]"), "command", "empty"),
        (("[python3, train.py]", "python3 train.py"), "command", "tuple"),
        (("a100-sxm4-80gb", "a1000"), "board", "unknown board"),
        (("name: t", "name: t\ncolour: red"), "colour", "nexpected"),
        (("name: t", "name: t\nprofiles: [9g.9gb]"), "profiles", "9g.9gb"),
        (("name: t", "name: t\nprofiles: []"), "profiles", "no profile"),
        (("name: t", "name: t\nbatch: 0"), "batch", "not a positive"),
        (("name: t", "name: t\nsteady: {at_most_seconds: .inf}"), "at_most_seconds", "not a positive"),
        (("name: t", "name: t\nsteady: {relative_half_width: -1}"), "relative_half_width", "not a positive"),
        (("name: t", "name: t\nwarm_up: {seconds: -1}"), "seconds", "negative"),
        (("name: t", "name: t\nwarm_up: {seconds: 300}"), "seconds", "no time to measure"),
        (("name: t", "name: t\nwarm_up: {values: -1}"), "values", "negative"),
        (("name: t", "name: t\nsteady: {at_least_seconds: 400}"), "at_least_seconds", "no time to measure"),
        (("name: t", "name: t\nlimit: {latency_ms: 5}"), "latency_ms", "of a batch"),
        (("name: t", "name: t\nbatch: 1\nlimit: {latency_ms: 5, throughput_per_second: 3}"), "limit", "two limits"),
        (("name: t", "name: t\nworkload: {batch: '3'}"), "batch", "no fact of identity"),
        (("name: t", "name: t\ntask: sing"), "task", "infer"),
        (("name: t", "name: t\nenv: {'A=B': c}"), "A=B", "no name of a variable"),
        (("regex: {pattern: 'rate ([0-9.]+)'}", "prometheus: {url: nowhere, query: up}"), "url", "no address"),
        (
            ("read: {regex: {pattern: 'rate ([0-9.]+)'}}", "processes: 2\nread: {json_lines: {file: l, field: f}}"),
            "file",
            "several processes",
        ),
        (("trial/v1", "trial/v2"), "schema", "expected migsaw/trial/v1"),
    ],
)
def test_a_fault_names_file_line_and_field(tmp_path, change, field, says):
    assert change[0] in GOOD
    with pytest.raises(InputError) as caught:
        read(tmp_path, GOOD.replace(*change))
    assert caught.value.where is not None
    assert caught.value.where.file == str(tmp_path / "workload.yaml")
    assert field in str(caught.value.where)
    assert says in str(caught.value)
    assert caught.value.where.place
