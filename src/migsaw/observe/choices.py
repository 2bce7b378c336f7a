"""Policy and fits files: read, and held to the catalogue, so that a misspelt name does not silently allow nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from migsaw.errors import InputError
from migsaw.fit.estimate_classes import CLASSES, find_class
from migsaw.model.boards import Catalogue
from migsaw.model.fits import Fit, Fits
from migsaw.model.policy import Policy
from migsaw.observe.documents import parse
from migsaw.observe.reading import Document, read_document


def read_policy(path: Path, catalogue: Catalogue) -> Policy:
    document = read_document(path)
    policy = parse(document, Policy)
    for number, name in enumerate(policy.profiles or ()):
        _check_profile(name, ["profiles", number], document, catalogue)
    for name, count in policy.headroom.items():
        _check_profile(name, ["headroom", name], document, catalogue)
        if count < 0:
            raise InputError(f"{count} instances", where=document.where(["headroom", name]), hint="0 or more")
    return policy


def read_fits(path: Path, catalogue: Catalogue) -> Fits:
    document = read_document(path)
    fits = parse(document, Fits)
    for number, fit in enumerate(fits.fits):
        ref = fit.workload
        place: list[str | int] = ["fits", number, "workload"]
        if sum(part is not None for part in (ref.name, ref.azureml, ref.selector)) != 1:
            hint = "namespace, kind and name; or azureml; or selector"
            raise InputError("a workload is named in exactly one way", where=document.where(place), hint=hint)
        _check_class(fit, ["fits", number], document)
        slots: list[tuple[list[str | int], str, str]] = []
        slots += [(["options", k], o.board, o.profile) for k, o in enumerate(fit.options)]
        slots += [(["chosen"], fit.chosen.board, fit.chosen.profile)] if fit.chosen else []
        for at, board, profile in slots:
            _check_slot(board, profile, ["fits", number, *at], document, catalogue)
    return fits


def _check_class(fit: Fit, place: list[str | int], document: Document) -> None:
    """A class stands alone: what else is known of a workload beats it."""
    if fit.workload_class is None:
        return
    where = document.where([*place, "workload_class"])
    if find_class(fit.workload_class) is None:
        raise InputError(f"no class {fit.workload_class!r}", where=where, hint=class_hint())
    if fit.options or fit.chosen or fit.source != "estimated":
        hint = "a class makes the options itself; leave it out where they are known"
        raise InputError("beside a class only `source: estimated` can stand", where=where, hint=hint)


def class_hint() -> str:
    return f"one of {', '.join(work.label for work in CLASSES)}"


def _check_slot(board: str, profile: str, place: list[str | int], document: Document, catalogue: Catalogue) -> None:
    try:
        catalogue.board(board).profile(profile)
    except InputError as problem:
        field = "board" if catalogue.find(board) is None else "profile"
        raise InputError(problem.message, where=document.where([*place, field]), hint=problem.hint) from None


def _check_profile(name: str, place: Iterable[str | int], document: Document, catalogue: Catalogue) -> None:
    if not any(board.find(name) for board in catalogue.boards):
        hint = "`migsaw boards BOARD` lists the profiles of a board"
        raise InputError(f"no board has a profile {name}", where=document.where(list(place)), hint=hint)
