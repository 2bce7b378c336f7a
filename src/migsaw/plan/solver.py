"""HiGHS without a word on stdout, which belongs to data. Imported only when something must be solved."""

from __future__ import annotations

import highspy


class QuietHighs(highspy.Highs):
    """From 1.16 on HiGHS prints its banner while it switches its callbacks on, so silence comes before that."""

    def enableCallbacks(self) -> None:
        self.silent()
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def new_solver() -> QuietHighs:
    """One thread and no gap: the same input gives the same answer."""
    solver = QuietHighs()  # type: ignore[no-untyped-call]
    solver.silent()
    for option, value in (("threads", 1), ("mip_rel_gap", 0.0)):
        solver.setOptionValue(option, value)
    return solver
