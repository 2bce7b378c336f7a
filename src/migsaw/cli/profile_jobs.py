"""``migsaw profile --on kubernetes|azureml``: the jobs of its trials as files. Running them from here comes later."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from migsaw.cli.output import write_file
from migsaw.errors import InputError
from migsaw.render.yaml_text import to_yaml  # quotes what YAML 1.1 readers (kubectl, Azure) take for no string

if TYPE_CHECKING:
    from migsaw.model.boards import Board
    from migsaw.model.trial import TrialSpec


DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"  # as metadata.name of a custom resource


def write_jobs(spec: TrialSpec, board: Board, out: Path, compute: str | None, types: tuple[str, ...]) -> None:
    """One file for each slot that a trial may be worth; on Kubernetes also how a node is reserved and released."""
    from migsaw.trial import jobs
    from migsaw.trial.choice import slots_of

    _, profiles = slots_of(spec, board, ("off",) if spec.profiles == ("off",) else None)
    if compute is None:
        found: dict[str, Any] = {profile: jobs.kubernetes_job(spec, profile) for profile in profiles}
        write_file(out / "reserve.txt", _by_hand(spec))
    else:
        names = _types(types, board)
        if missing := [profile for profile in profiles if profile not in names]:
            hint = f"--instance-type {missing[0]}=NAME, or leave it out of the file's `profiles:`"
            raise InputError(f"no InstanceType for {missing[0]}", hint=hint)
        found = {profile: jobs.azureml_job(spec, profile, compute, names[profile]) for profile in profiles}
    paths = [out / f"{profile}.yaml" for profile in found]
    for path, document in zip(paths, found.values(), strict=True):
        write_file(path, to_yaml(document))
        click.echo(str(path))
    if compute is not None:
        _validate(paths)
    click.echo("written only: running trials on a cluster from here comes later", err=True)


def _validate(paths: list[Path]) -> None:
    from migsaw.azureml.validate import INSTALL, SDK, validated

    sdk = validated(paths)
    said = f"validated offline by {sdk}" if sdk else f"not validated: {SDK} is not installed ({INSTALL})"
    click.echo(said, err=True)


def _types(given: tuple[str, ...], board: Board) -> dict[str, str]:
    found = {}
    for text in given:
        profile, mark, name = text.partition("=")
        if not mark or not name:
            raise InputError(f"--instance-type {text}: not PROFILE=NAME")
        if not re.fullmatch(DNS_LABEL, name):
            hint = "small letters, digits and hyphens, at most 63: `kubectl get instancetypes`"
            raise InputError(f"--instance-type {text}: {name!r} is no name of an InstanceType", hint=hint)
        found["off" if profile == "off" else board.profile(profile).name] = name
    return found


def _by_hand(spec: TrialSpec) -> str:
    from migsaw.trial import jobs

    reserve, release = jobs.kubectl_words(jobs.holder(spec), "NODE")
    lines = [
        "Before the first job, for the node that has the slices (put its name for NODE):",
        *(shlex.join(words) for words in reserve),
        "Then one job at a time: kubectl create -f PROFILE.yaml",
        "After the last one, whatever came of them:",
        *(shlex.join(words) for words in release),
    ]
    return "\n".join(lines) + "\n"
