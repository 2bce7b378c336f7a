"""``migsaw assign``: measurements become fixed slots, as the fits that a plan reads."""

from __future__ import annotations

import time
from typing import Any

import click

from migsaw.cli.output import Output, output_option, show
from migsaw.cli.slot_inputs import slot_options, slots
from migsaw.errors import InfeasibleError


@click.command()
@slot_options
@output_option()
def command(store: str, output: Output, **asked: Any) -> None:
    """Give each measured workload the profile that reaches its limits at the least cost of finished work.

    `-o fits.json` is for `migsaw plan --fits`; the fits go to the store too. A profile that was not measured is
    predicted from those that were, and counts with the low end of its interval.
    """
    from migsaw.fit.assigned import fit_of
    from migsaw.model.fits import Fits
    from migsaw.observe import documents
    from migsaw.report.assign import assign_tables, raw_table
    from migsaw.store import open_store
    from migsaw.store.records import record_of

    found = slots(store, asked)
    fits = [(row.fingerprint, fit) for row in found.assigned if (fit := fit_of(row)) is not None]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with open_store(store) as opened:
        opened.add(record_of(Fits((fit,)), fingerprint, at) for fingerprint, fit in fits)
    tables = [raw_table(found.assigned)] if output.format == "csv" else assign_tables(found.assigned, found.notes)
    document = documents.plain(Fits(tuple(fit for _, fit in fits)))
    show(output, document, tables, makes_document=True)
    if not any(row.chosen for row in found.assigned):
        raise InfeasibleError("no workload got a slot", hint="the column `why` names what each profile lacks")
