"""The store, on SQLite and on a real PostgreSQL: nothing is lost, nothing is there twice, old forms come along."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from migsaw.errors import InputError, MigsawError, Where
from migsaw.model.fits import Figure
from migsaw.model.measurement import Measurement, WorkloadId
from migsaw.store import open_store
from migsaw.store.engine import connect
from migsaw.store.migrate import FOLDER, HEAD, migrate
from migsaw.store.records import of_line, record_of, to_line


def _postgres_programs() -> Path | None:
    """The newest version of Debian's package, or what PATH has."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[4]))
    if packaged:
        return packaged[-1].parent
    found = shutil.which("postgres")
    return Path(found).parent if found else None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a server on loopback with a database of its own, ended by its process id."""
    programs = _postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not here (apt install postgresql)")
    as_user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="migsaw-pg-"))
    if as_user:
        shutil.chown(folder, "postgres", "postgres")
    data, port = folder / "data", _free_port()
    make = [programs / "initdb", "-D", data, "-U", "migsaw", "--auth=trust", "--no-sync", "-E", "UTF8"]
    subprocess.run(make, check=True, capture_output=True, cwd=folder, **as_user)
    options = ["-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-c", "fsync=off"]
    server = subprocess.Popen(
        [programs / "postgres", *options], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user
    )
    try:
        url = f"postgresql://migsaw@127.0.0.1:{port}/postgres"
        _wait_for(url, server)
        yield url
    finally:
        server.send_signal(signal.SIGINT)  # fast shutdown: does not wait for clients
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)
        else:
            return


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "made" / "store.db")
    server = request.getfixturevalue("postgres_server")
    import psycopg

    name = f"t{abs(hash((request.node.nodeid, os.getpid())))}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return server.rsplit("/", 1)[0] + f"/{name}"


def measurement(number: int, name: str = "bert", at: str = "2026-12-01T00:00:00Z") -> Measurement:
    workload = WorkloadId({"namespace": "ml", "kind": "Deployment", "name": name})
    figure = Figure(100.0 + number, 95.0 + number, 105.0 + number)
    return Measurement(
        workload, workload.fingerprint(), "a100-sxm4-80gb", "1g.10gb", "mig", "steady", at, number,
        throughput_per_second=figure, memory_peak_mib=4000 + number, conditions={"ü": "日本 \"x\"\n"},
    )  # fmt: skip


def record(number: int, name: str = "bert", at: str = "2026-12-01T00:00:00Z"):
    value = measurement(number, name, at)
    return record_of(value, value.fingerprint, value.at)


def test_what_was_written_comes_back_the_same_and_once(url):
    rows = [record(n) for n in range(1200)]
    with open_store(url) as store:
        assert store.add(rows) == 1200
        assert store.add([rows[3], rows[3], record(1200)]) == 1
    with open_store(url) as store:
        found = list(store.records("measurement", rows[0].subject))
    assert len(found) == 1201
    assert [r.value(Measurement) for r in found[:1200]] == [measurement(n) for n in range(1200)]


def test_records_are_told_apart_by_kind_and_subject_and_ordered_by_time(url):
    rows = [record(1, at="2026-12-03T00:00:00Z"), record(2, at="2026-12-02T00:00:00Z"), record(3, name="other")]
    with open_store(url) as store:
        store.add(rows)
        subject = rows[0].subject
        assert [r.at[:10] for r in store.records("measurement", subject)] == ["2026-12-02", "2026-12-03"]
        assert store.latest("measurement", subject) == rows[0]
        assert store.latest("measurement", "nobody") is None
        assert list(store.records("plan")) == []


def test_a_failed_call_writes_nothing(url):
    def broken():
        yield record(1)
        raise RuntimeError("the source died")

    with open_store(url) as store:
        with pytest.raises(RuntimeError):
            store.add(broken())
        assert list(store.records()) == []


WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from test_store import record
from migsaw.store import open_store
with open_store(sys.argv[1]) as store:
    for n in range(100):
        assert store.add([record(n, name=f"writer-{sys.argv[2]}"), record(n, name="shared")]) >= 1
"""


def test_writers_at_once_lose_nothing_also_when_both_find_no_database(url):
    """Each writes 100 of its own and the same 100: 300 in all, whoever was first."""
    here = str(Path(__file__).parent)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, str(n), here], stderr=subprocess.PIPE) for n in (1, 2)
    ]
    for writer in writers:
        _, problem = writer.communicate(timeout=120)
        assert writer.returncode == 0, problem.decode()
    with open_store(url) as store:
        assert len({r.id for r in store.records()}) == 300


def test_a_writer_that_is_killed_leaves_only_whole_records(url):
    here = str(Path(__file__).parent)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url, "1", here], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and writer.poll() is None:
        time.sleep(0.05)
        try:
            with open_store(url) as store:
                if len(list(store.records())) > 20:
                    break
        except MigsawError:
            continue
    writer.kill()
    writer.wait()
    with open_store(url) as store:
        found = list(store.records())
        assert len(found) % 2 == 0, "both records of a call, or none"
        assert all(r.value(Measurement) for r in found)
        assert store.add([record(1, name="after")]) == 1


def test_lines_carry_everything_from_one_store_to_another(url, tmp_path):
    with open_store(url) as store:
        store.add([record(n) for n in range(3)])
        lines = [to_line(r) for r in store.records()]
    with open_store(tmp_path / "other.db") as other:
        other.add(of_line(line, Where("f", "1")) for line in lines)
        assert [to_line(r) for r in other.records()] == lines
    assert all(line.count("\n") == 1 for line in lines)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda row: "{", "not a line"),
        (lambda row: json.dumps([]), "not a line"),
        (lambda row: json.dumps(row | {"kind": "secret"}), "'secret' is none of"),
        (lambda row: json.dumps(row | {"document": row["document"] | {"odd": 1}}), "odd"),
        (lambda row: json.dumps(row | {"document": {**row["document"], "memory_peak_mib": "much"}}), "memory_peak_mib"),
    ],
)
def test_a_wrong_line_is_named_with_its_place(change, says):
    row = json.loads(to_line(record(1)))
    with pytest.raises(InputError) as caught:
        of_line(change(row), Where("export.jsonl", "7"))
    assert says in str(caught.value)
    assert str(caught.value).startswith("export.jsonl: line 7")


def test_the_newest_form_is_the_newest_file():
    assert max(path.name.split("_")[0] for path in (FOLDER / "versions").glob("0*.py")) == HEAD


@pytest.mark.parametrize("released", sorted(p.name.split("_")[0] for p in (FOLDER / "versions").glob("0*.py")))
def test_a_store_of_every_released_form_is_brought_up_to_date(url, released):
    engine = connect(url)
    migrate(engine, released)
    with engine.begin() as connection:
        row = {"id": "a" * 64, "kind": "plan", "subject": "s", "at": "2026-01-01T00:00:00Z", "document": "{}"}
        names = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        connection.execute(text(f"INSERT INTO records ({names}) VALUES ({marks})"), row)
    engine.dispose()
    with open_store(url) as store:
        assert [r.subject for r in store.records()] == ["s"]


def test_a_store_of_a_newer_migsaw_is_refused_and_left_alone(url):
    open_store(url).close()
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(MigsawError, match="9999"):
        open_store(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "kind", "says"),
    [
        ("mysql://u:hush@h/d", InputError, "mysql"),
        ("postgresql://u:hush@127.0.0.1:1/d", MigsawError, "127.0.0.1"),
        ("/proc/nowhere/store.db", InputError, "/proc/nowhere"),
        ("://", InputError, "cannot be read"),
    ],
)
def test_what_cannot_be_opened_is_said_without_the_password(url, kind, says):
    with pytest.raises(kind) as caught:
        open_store(url)
    assert says in str(caught.value)
    assert "hush" not in str(caught.value) + str(caught.value.hint)


def test_a_directory_or_a_text_file_is_no_store(tmp_path):
    (tmp_path / "notes.db").write_text("these are notes, and long enough to be looked at by sqlite " * 40)
    for path in (tmp_path, tmp_path / "notes.db"):
        with pytest.raises(MigsawError):
            open_store(path)
    assert "these are notes" in (tmp_path / "notes.db").read_text()


def test_the_fingerprint_is_of_the_facts_that_the_rule_names_in_any_order():
    one = WorkloadId({"name": "bert", "namespace": "ml", "batch": "8"})
    other = WorkloadId({"batch": "16", "namespace": "ml", "name": "bert"})
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint(("name", "batch")) != other.fingerprint(("name", "batch"))
    assert WorkloadId({"name": ""}).fingerprint() != WorkloadId({"name": "x"}).fingerprint()
    with pytest.raises(ValueError, match="none of"):
        one.fingerprint(("image",))
