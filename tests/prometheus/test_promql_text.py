"""Questions as text and the budget that splits them: by counting, by brute force and by RE2's own rules."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migsaw.model.telemetry import Window
from migsaw.observe import promql
from migsaw.observe.joins import Key, Unit, join, place

COUNTS = st.dictionaries(
    st.text("abcdef0123", min_size=1, max_size=6).map(lambda s: (s,)), st.integers(1, 20), min_size=1
)


@given(COUNTS, st.integers(1, 50), st.integers(1, 5000))
def test_batches_are_ceil_of_series_times_points_by_budget(counts, points: int, budget: int) -> None:
    batches = promql.split(counts, points, budget)
    samples = sum(counts.values()) * points
    assert len(batches) == min(len(counts), (samples + budget - 1) // budget)
    assert sorted(key for batch in batches for key in batch) == sorted(counts)  # each once: nothing is split or lost
    sizes = [sum(counts[key] for key in batch) for batch in batches]
    assert max(sizes) - min(sizes) <= max(counts.values())


@given(COUNTS, st.randoms())
def test_batches_do_not_depend_on_the_order_of_the_list(counts, chance) -> None:
    shuffled = list(counts.items())
    chance.shuffle(shuffled)
    assert promql.split(dict(shuffled), 10, 50) == promql.split(counts, 10, 50)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(0, 3600, 30), Window(0, 3600, 30)),
        (Window(17, 3617, 30), Window(0, 3600, 30)),  # ends at the last multiple of the step
        (Window(0, 100, 30), Window(0, 90, 30)),  # whole steps only
        (Window(1000.5, 1001.7, 0.1), Window(1000.5, 1001.7, 0.1)),
    ],
)
def test_windows_end_where_subqueries_are_sampled(window: Window, expected: Window) -> None:
    found = promql.aligned(window)
    assert (found.start, found.end, found.points) == (
        pytest.approx(expected.start),
        pytest.approx(expected.end),
        expected.points,
    )


def test_the_range_is_a_millisecond_short() -> None:
    """Prometheus before 3 counts a sample at the start of a range, later ones do not: now neither has one there."""
    assert promql.over("avg_over_time({})", "x", Window(0, 3600, 30)) == "avg_over_time((x)[3599999ms:30s])"
    assert promql.over("changes({})", "x", Window(0, 1, 0.25)) == "changes((x)[999ms:250ms])"


@given(st.text(min_size=1).filter(lambda s: "\x00" not in s))
def test_a_literal_matches_itself_only(text: str) -> None:
    assert re.fullmatch(promql.literal(text), text)
    assert not re.fullmatch(promql.literal(text), text + "x")


def test_quotes_and_backslashes_stay_inside_a_string() -> None:
    assert promql.quote('a"b\\c\n') == '"a\\"b\\\\c\\n"'
    assert promql.selector(["A", "B"], ['cluster="x"']) == '{__name__=~"A|B", cluster="x"}'


def test_a_signal_of_either_generation_is_one_selector_of_either_label() -> None:
    either = [promql.Matcher("UUID", ("GPU-1", "GPU-2")), promql.Matcher("uuid", ("GPU-1", "GPU-2"))]
    assert (
        promql.selector(["A"], (), either)
        == '({__name__=~"A", UUID=~"GPU-1|GPU-2"} or {__name__=~"A", uuid=~"GPU-1|GPU-2"})'
    )


MODERN = {"UUID": "GPU-1", "gpu": "0", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb", "namespace": "ml", "pod": "a-0"}


def joined(*label_sets: dict[str, str]):
    found = [place(labels) for labels in label_sets]
    return join(sorted({f[1] for f in found if f}), [f[2] for f in found if f])


def test_one_generation_needs_no_replacement() -> None:
    how = joined(MODERN)
    assert how.replaces == ()
    assert how.labels(whole_gpus=False) == ["UUID", "GPU_I_ID", "GPU_I_PROFILE", "namespace", "pod"]
    assert how.labels(whole_gpus=True) == ["UUID"]
    assert how.key(MODERN) == Key("GPU-1", "7", "1g.10gb", "ml/a-0")


def test_the_exporters_own_pod_is_replaced_only_beside_holders() -> None:
    own = MODERN | {"namespace": "gpu-operator", "pod": "dcgm-exporter-x"}
    assert joined(own).pod is None  # nobody holds anything here
    beside = joined(MODERN, own)
    assert beside.pod == "migsaw_pod"
    assert {r.source for r in beside.replaces} == {"namespace", "pod"}
    exported = own | {"exported_namespace": "ml", "exported_pod": "a-0"}
    assert (joined(own, exported).pod, joined(own, exported).replaces) == ("exported_pod", ())


def test_lists_and_answers_give_the_same_key() -> None:
    """Whatever the generation: the key of a listed series is the key of the answer that its labels turn into."""
    own = {"UUID": "GPU-1", "gpu": "0", "GPU_I_ID": "7", "GPU_I_PROFILE": "<<<NULL>>>", "pod": "dcgm-exporter-x"}
    old = {"uuid": "GPU-1", "gpu": "0", "gpu_i_id": "7", "pod_namespace": "ml", "pod_name": "a-0"}
    every = (MODERN, own, old, {"UUID": "GPU-1", "gpu": "0", "pod_uid": "12"})
    how = joined(*every)
    for labels in every:
        replaced = dict(labels)
        for r in how.replaces:
            if found := re.fullmatch(r.pattern, replaced.get(r.source, "")):
                replaced[r.target] = found.expand(r.value.replace("$1", r"\1"))
        answer = {label: replaced[label] for label in how.labels(whole_gpus=False) if replaced.get(label)}
        placed = place(labels)
        assert placed is not None
        assert how.key(answer) == placed[0]


def test_units_are_a_gpu_or_a_host() -> None:
    bare = {"gpu": "1", "Hostname": "node-a"}
    found = place(bare)
    assert found is not None
    assert found[1] == Unit("place", "node-a")
    assert joined(bare).key(bare) == found[0]
    assert place({"gpu": "0", "nvswitch": "1"}) is None
    assert place({"pod": "x"}) is None
