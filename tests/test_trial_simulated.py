"""Trials replayed from measured tables: the slot of few trials against that of measuring everything."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from migsaw import catalogue
from migsaw.cli.shared import load_catalogue
from migsaw.errors import InputError
from migsaw.fit.curve_prior import parse_prior
from migsaw.model.measurement import Measurement
from migsaw.model.trial import Limit, Read, RegexReading, Steady, Trials, TrialSpec, Verdict, WarmUp
from migsaw.store import open_store
from migsaw.trial.runner import Profiling
from migsaw.trial.simulated import SimulatedBackend, simulated_backend
from migsaw.trial.watch import watch

CATALOGUE = load_catalogue()
PRIOR = parse_prior(catalogue.read("curves.json"))
BOARD = CATALOGUE.board("a100-sxm4-40gb")
SHARES = {"1g.5gb": 1 / 7, "2g.10gb": 2 / 7, "3g.20gb": 1 / 2, "4g.20gb": 4 / 7, "7g.40gb": 1.0}  # compute/7, memory/8
MEASURED = {"1g.5gb": 100.0, "2g.10gb": 195.0, "3g.20gb": 290.0, "4g.20gb": 320.0, "7g.40gb": 500.0}


class Silent:
    def started(self, profile):
        pass

    def seen(self, state):
        pass

    def finished(self, measurement, message):
        pass


def spec(floor: float | None = None, **more) -> TrialSpec:
    words = {"task": "train", "batch": 8, "warm_up": WarmUp(12), **more}
    read = Read(regex=RegexReading("(x)"))
    return TrialSpec("m", BOARD.key, ("x",), read, limit=Limit(throughput_per_second=floor), **words)


def run(
    asked: TrialSpec, rates: Mapping[str, float], memory: Mapping[str, int] = {}, store=":memory:", **more
) -> Trials:
    backend = SimulatedBackend(rates, memory, tuple(p.name for p in BOARD.profiles), **more)
    with open_store(store) as opened:
        return Profiling(asked, BOARD, backend, PRIOR, opened, lambda: "2026-12-01T00:00:00Z", Silent()).run()


def cheapest(rates: Mapping[str, float], floor: float | None) -> str:
    """By measuring everything."""
    return min(
        (n for n in rates if floor is None or rates[n] >= floor), key=lambda n: (SHARES[n] / rates[n], SHARES[n])
    )


def configurations(data_dir: Path) -> list[tuple[str, int, dict[str, float], dict[str, int]]]:
    """(task, batch, throughput, MiB) of everything measured on the A100-40GB on its full GPU and one slot more."""
    groups = defaultdict(lambda: (defaultdict(list), defaultdict(list)))
    with (data_dir / "measured_slice_performance.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            if row["gpu"] != "A100-40GB" or row["profile"] not in SHARES or not float(row["throughput"] or 0):
                continue
            words = row["notes"].split("; ")
            kind = tuple(sorted(w for w in words if w.startswith(("procs=", "seq_len=", "sweep="))))
            rates, memory = groups[row["source"], row["model"], row["task"], int(row["batch"] or 1), kind]
            rates[row["profile"]].append(float(row["throughput"]))
            if row["memory_gb"]:
                memory[row["profile"]].append(float(row["memory_gb"]) * 1024)
    found = []
    for (_, _, task, batch, _), (rates, memory) in groups.items():
        means = {name: sum(mine) / len(mine) for name, mine in rates.items()}
        if "7g.40gb" in means and len(means) > 1:
            found.append((task, batch, means, {n: math.ceil(sum(mine) / len(mine)) for n, mine in memory.items()}))
    return found


def test_few_trials_find_the_slot_that_measuring_everything_finds(data_dir):
    """Four limits each, values with 3 % noise a second, intervals of ±3 %.

    Where another slot is taken, a trial was not worth its time: it costs hardly more.
    """
    same, excess, made, missed, cases = 0, [], 0, 0, 0
    found = configurations(data_dir)
    assert len(found) >= 80
    for task, batch, rates, memory in found[::3]:
        for limit in (None, 1.5, 3.0, 6.0):
            floor = rates["7g.40gb"] / limit if limit else None
            trials = run(spec(floor, task=task, batch=batch), rates, memory)
            assert trials.chosen in rates, "a slot without a row is never chosen"
            best = cheapest(rates, floor)
            cases, same, made = cases + 1, same + (trials.chosen == best), made + trials.trials
            missed += floor is not None and rates[trials.chosen] < floor
            excess.append(SHARES[trials.chosen] / rates[trials.chosen] / (SHARES[best] / rates[best]) - 1)
    assert made / cases <= 2.2
    assert same / cases >= 0.7
    assert sum(excess) / cases <= 0.03
    assert sorted(excess)[int(0.9 * cases)] <= 0.10
    assert missed / cases <= 0.01


def test_a_measured_value_is_the_tables_within_its_interval_and_the_warm_up_is_out():
    trials = run(spec(), MEASURED)
    (row,) = [row for row in trials.rows if row.measurement]
    figure = row.throughput_per_second
    assert row.profile == "1g.5gb" == trials.chosen
    assert figure.low < 100 < figure.high
    assert (figure.high - figure.low) / 2 <= 0.03 * figure.value
    assert (row.measurement.device, row.measurement.outcome, row.measurement.startup_seconds) == (
        "simulated", "steady", 5.0,
    )  # fmt: skip
    predicted = [row for row in trials.rows if row.measurement is None]
    assert predicted
    assert {row.throughput_per_second.source for row in predicted} == {"predicted"}


@pytest.mark.parametrize(("noise", "width"), [(0.03, 0.03), (0.1, 0.05)])
def test_intervals_of_trials_that_ended_early_still_hold_the_tables_value(noise, width):
    """Of 300 trials. To end when the interval is narrow favours those that are too narrow: 95 % are not reached."""
    asked, found = spec(steady=Steady(relative_half_width=width, at_most_seconds=1200)), []
    for seed in range(300):
        with SimulatedBackend({"1g.5gb": 100.0}, {}, ("1g.5gb",), seed, noise).trial("1g.5gb") as running:
            found.append(watch(running.events, asked))
    covered = sum(abs(trial.mean.value - 100) <= trial.mean.half_width for trial in found) / len(found)
    assert 0.88 <= covered <= 0.98
    assert {trial.outcome for trial in found} == {"steady"}
    assert sum(trial.steady_seconds for trial in found) / len(found) <= 1200 / 10, "most of the time is saved"


def test_a_missing_row_runs_out_of_memory_and_the_next_larger_memory_is_tried():
    rates = {name: rate for name, rate in MEASURED.items() if SHARES[name] >= 0.5}
    trials = run(spec(), rates)
    outcomes = {row.profile: row.measurement.outcome for row in trials.rows if row.measurement}
    assert outcomes["1g.5gb"] == outcomes["2g.10gb"] == "out_of_memory"
    assert trials.chosen == cheapest(rates, None) == "3g.20gb"


def test_memory_that_a_trial_took_spares_trials_of_smaller_slots():
    asked = spec(profiles=("3g.20gb", "1g.5gb"))
    trials = run(asked, MEASURED, dict.fromkeys(MEASURED, 4700))
    assert [row.profile for row in trials.rows if row.measurement] == ["1g.5gb"]
    for mib, holds in ((9000, False), (19_000, None)):  # what fills its slot may have taken more than it needs
        full = run(spec(profiles=("3g.20gb",)), MEASURED, dict.fromkeys(MEASURED, mib))
        assert {row.profile: row.holds for row in full.rows}["1g.5gb"] is holds


def test_nothing_that_serves_is_said_after_all_that_could_be_tried():
    trials = run(spec(floor=10_000.0), MEASURED)
    assert (trials.chosen, trials.verdict) == (None, Verdict.NONE_SERVES)
    assert "10000" in trials.because or "1e+04" in trials.because
    none = run(spec(), {})
    assert (none.chosen, none.verdict) == (None, Verdict.NONE_SERVES)
    assert "holds it" in none.because


def test_running_again_measures_nothing_and_comes_to_the_same(tmp_path):
    asked = spec(floor=250.0)
    first = run(asked, MEASURED, store=tmp_path / "s.db")
    again = run(asked, MEASURED, store=tmp_path / "s.db")
    assert first.trials >= 2
    assert (again.trials, again.chosen, again.because) == (0, first.chosen, first.because)
    assert all(row.is_resumed for row in again.rows if row.measurement)
    other = run(spec(floor=250.0, batch=16), MEASURED, store=tmp_path / "s.db")
    assert other.trials == first.trials, "another batch is another trial"


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    values = [run(spec(), MEASURED, seed=seed).rows[0].throughput_per_second.value for seed in (1, 1, 2)]
    assert values[0] == values[1] != values[2]


def test_cpu_numbers_never_stand_for_a_slice(tmp_path):
    """A rehearsal of the same workload is in the store: the simulated series takes nothing of it."""
    import sys

    from migsaw.trial.local import CpuBackend

    asked = spec(profiles=("1g.5gb",), warm_up=WarmUp(), steady=Steady(at_least_seconds=0.1))
    object.__setattr__(asked, "command", (sys.executable, "-c", "while True: print('7', flush=True)"))
    object.__setattr__(asked, "read", Read(regex=RegexReading("(7)")))
    with open_store(tmp_path / "s.db") as store:
        words = (BOARD, CpuBackend(asked, tmp_path), PRIOR, store, lambda: "2026-12-01T00:00:00Z", Silent())
        rehearsed = Profiling(asked, *words).run()
        kept = [record.value(Measurement) for record in store.records("measurement")]
    assert (rehearsed.verdict, rehearsed.chosen, [m.device for m in kept]) == (Verdict.REHEARSED, None, ["cpu"])
    assert all(row.cost is None and row.share is None for row in rehearsed.rows)
    found = run(asked, MEASURED, store=tmp_path / "s.db")
    assert (found.trials, found.rows[0].measurement.device) == (1, "simulated")


TABLE = """\
source,gpu,model,task,batch,profile,throughput,unit,latency_ms,memory_gb,notes
a,A100-40GB,m,train,8,1g.5gb,100,samples/s,,4.5,
a,A100-40GB,m,train,8,2g.10gb,190,samples/s,,4.5,
a,A100-40GB,m,train,8,2g.10gb,200,samples/s,,4.5,
a,A100-40GB,m,train,8,7g.40gb,0,samples/s,,,ended
a,A100-40GB,m,train,8,1g.5gb,130,samples/s,,4.5,procs=2
a,A100-80GB,m,train,8,1g.10gb,111,samples/s,,4.5,
"""


def test_of_a_table_the_rows_of_this_board_batch_and_processes_count(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    one = simulated_backend(spec(), BOARD, CATALOGUE, path)
    assert one.throughput == {"1g.5gb": 100.0, "2g.10gb": 195.0}
    assert one.memory_mib == {"1g.5gb": 4608, "2g.10gb": 4608}
    assert simulated_backend(spec(processes=2), BOARD, CATALOGUE, path).throughput == {"1g.5gb": 130.0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("a,A100-40GB,m,train,8,1g.5gb,100", "b,A100-40GB,m,train,8,1g.5gb,100"), "2 configurations"),
        (("throughput,", "speed,"), "no column throughput"),
        ((",100,", ",fast,"), "'fast' is no number"),
        (("A100-40GB", "H100"), "no row for model m"),
    ],
)
def test_a_table_that_does_not_say_it_is_refused(tmp_path, change, says):
    path = tmp_path / "t.csv"
    path.write_text(TABLE.replace(*change))
    with pytest.raises(InputError, match=says):
        simulated_backend(spec(), BOARD, CATALOGUE, path)


def test_the_verb_prints_what_was_measured_predicted_and_chosen(migsaw, tmp_path):
    rows = [f"a,A100-40GB,m,train,8,{name},{rate},samples/s,,3,\n" for name, rate in MEASURED.items()]
    (tmp_path / "t.csv").write_text(TABLE.splitlines()[0] + "\n" + "".join(rows))
    (tmp_path / "w.yaml").write_text(
        "schema: migsaw/trial/v1\nname: m\nboard: a100-sxm4-40gb\ncommand: [x]\nbatch: 8\n"
        "read: {regex: {pattern: '(x)'}}\nwarm_up: {seconds: 12}\nlimit: {throughput_per_second: 250}\n"
    )
    words = ["profile", "w.yaml", "--on", "simulated", "--table", "t.csv", "--store", "s.db"]
    done = migsaw(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "predicted" in done.stdout
    assert "Slot: 3g.20gb" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    found = json.loads(migsaw(*words, "-o", "json", cwd=tmp_path).stdout)
    assert (found["schema"], found["chosen"], found["trials"]) == ("migsaw/trials/v1", "3g.20gb", 0)


@pytest.mark.parametrize(
    "words",
    [
        ["--on", "simulated"],
        ["--on", "local", "--table", "t.csv"],
        ["--on", "simulated", "--table", "t.csv", "--device", "cpu"],
        ["--on", "kubernetes"],
        ["--on", "azureml", "--out", "d"],
        [],
    ],
)
def test_options_that_do_not_belong_together_are_a_usage_error(migsaw, tmp_path, words):
    assert migsaw("profile", "w.yaml", *words, cwd=tmp_path).returncode == 2
