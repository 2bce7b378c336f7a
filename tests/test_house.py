"""The rules of the house that no linter knows: a fast start, public names, the size of rooms, what tests owe.

Layers and forbidden imports are contracts of import-linter (pyproject.toml, ``make check``).
"""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import migsaw
from migsaw.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(ROOT.glob("src/migsaw/**/*.py"))
TESTS = sorted(ROOT.glob("tests/**/test_*.py"))
PURE = ("errors.py", "model", "fit", "plan", "doctor", "render", "report")

# Packages that no one pays for who only asks for help.
HEAVY = {
    *("highspy", "numpy", "pydantic", "pydantic_core", "rich", "ruamel", "prometheus_client", "sqlalchemy", "alembic"),
    *("kubernetes", "lightkube", "azure", "msrest", "fastapi", "starlette", "jinja2", "requests", "httpx", "urllib3"),
}


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(option):
    program = (
        "import sys\n"
        f"sys.argv = ['migsaw', '{option}']\n"
        "from migsaw.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "click" in loaded
    assert not loaded & HEAVY
    assert not {
        name for name in done.stderr.split() if name.startswith(("migsaw.observe", "migsaw.plan", "migsaw.fit"))
    }


def test_version_is_printed(migsaw):
    done = migsaw("--version")
    assert (done.returncode, done.stdout) == (0, "migsaw 0.1.0\n")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_helps(migsaw, verb):
    done = migsaw(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: migsaw {verb}")


def test_help_names_every_verb(migsaw):
    shown = migsaw("--help").stdout
    assert [verb for verb in VERBS if not re.search(rf"^  {verb} ", shown, re.MULTILINE)] == []


def test_a_usage_error_is_exit_2_without_a_traceback(migsaw):
    done = migsaw("nonsense")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_public_names_are_pinned():
    assert sorted(migsaw.__all__) == ["InfeasibleError", "InputError", "MigsawError", "TargetError", "__version__"]
    assert all(hasattr(migsaw, name) for name in migsaw.__all__)


def test_the_tree_of_errors_is_as_drawn():
    assert migsaw.InputError.__bases__ == (migsaw.MigsawError,)
    assert migsaw.InfeasibleError.__bases__ == (migsaw.MigsawError,)
    assert migsaw.TargetError.__bases__ == (migsaw.InfeasibleError,)
    exits = {"MigsawError": 1, "InputError": 2, "InfeasibleError": 1, "TargetError": 1}
    drawn = dict(re.findall(r"(\w+Error) +exit (\d)", migsaw.errors.__doc__ or ""))
    assert {name: int(code) for name, code in drawn.items()} == exits
    assert {name: getattr(migsaw, name).exit_code for name in exits} == exits


def test_modules_stay_small():
    lines = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES)
    assert statistics.median(lines) <= 160
    assert statistics.quantiles(lines, n=10)[-1] <= 450
    assert lines[-1] <= 600


def test_functions_stay_short():
    lengths = [f.end_lineno - f.lineno + 1 for path in SOURCES for f in _functions(_tree(path)) if f.end_lineno]
    assert statistics.quantiles(lengths, n=10)[-1] <= 40
    assert max(lengths) <= 80


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_module_says_why_it_exists(path):
    assert ast.get_docstring(_tree(path))


def test_pure_rooms_neither_read_nor_print():
    banned = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.func.id}"
        for path in SOURCES
        if path.relative_to(ROOT / "src/migsaw").parts[0] in PURE
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in banned
    ]
    assert found == []


def test_every_test_asserts_something():
    silent = []
    for path in TESTS:
        functions = list(_functions(_tree(path)))
        judges = {f.name for f in functions if any(isinstance(node, ast.Assert) for node in ast.walk(f))} | {"raises"}
        for function in functions:
            called = {
                getattr(node.func, "id", getattr(node.func, "attr", ""))
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
            }
            if function.name.startswith("test_") and function.name not in judges and not called & judges:
                silent.append(f"{path.name}:{function.lineno} {function.name}")
    assert silent == []


def test_no_file_names_a_machine_path():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        names = [
            str(path.relative_to(ROOT)) for path in (*SOURCES, *TESTS, *ROOT.glob("*.*"), *ROOT.glob("docs/**/*.md"))
        ]
    else:
        names = listed.stdout.splitlines()
    machine = re.compile("/(?:" + "|".join(("work", "root", "home")) + r")/|(?<!\w)shared/(?!data)")
    guilty = []
    for path in (ROOT / name for name in names):
        if path.is_file() and machine.search(path.read_text(encoding="utf-8", errors="replace")):
            guilty.append(path.relative_to(ROOT).as_posix())
    assert [name for name in guilty if name != "tests/test_house.py"] == []


def test_links_between_pages_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("designs/*.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in link
    ]
    assert links
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_decision_stands_in_the_index():
    index = (ROOT / "designs/README.md").read_text(encoding="utf-8")
    assert [p.name for p in ROOT.glob("designs/[0-9]*.md") if f"({p.name})" not in index] == []


def test_ci_calls_only_make_targets():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    lines = [line.strip() for line in script.read_text(encoding="utf-8").splitlines()]
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = [line for line in lines if line.startswith("make ")]
    assert {"make check", "make test", "make demo"} <= set(called)
    assert {word for line in called for word in line.split()[1:]} <= targets
    scene = ("#", "make ", "set ", "cd ", "exec </dev/null", "export ", "MIGSAW_DATA=")
    assert [line for line in lines if line and not line.startswith(scene)] == []


def test_the_core_needs_only_what_the_design_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=~\[]", line)[0] for line in project["dependencies"]}
    allowed = {
        "click",
        "highspy",
        "numpy",
        "prometheus-client",
        "pydantic",
        "rich",
        "ruamel.yaml",
        "sqlalchemy",
        "alembic",
    }
    assert names <= allowed
    assert project["requires-python"] == ">=3.11"
