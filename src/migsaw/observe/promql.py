"""Questions as text: which samples count, how series of one device are joined, how a window is split by a budget.

Pure strings and numbers. The server does the arithmetic over a subquery, `(vector)[range:step]`; the vector in it has
dropped blanks and spikes by comparison (NaN fails every comparison) and has joined what is one device: two scrape jobs,
two generations of labels, an exporter that restarted. Nothing here knows the server.

Sampling rule (prometheus.io "Querying basics"): at every whole multiple of the step after the window's start, up to
its end, the newest sample of at most the server's look-back (5 minutes) counts; an ended series gives none.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from migsaw.model.telemetry import Window
from migsaw.observe.dcgm import BLANK, MOST_OF_A_RATIO

K = TypeVar("K", bound=tuple[str, ...])

# functions over a window; quantiles interpolate linearly between the two nearest ranks, as numpy does by default
VALUES = {
    "mean": "avg_over_time({})",
    "low": "quantile_over_time(0.05, {})",
    "median": "quantile_over_time(0.5, {})",
    "high": "quantile_over_time(0.95, {})",
    "peak": "max_over_time({})",
    "deviation": "stddev_over_time({})",
}
FEW_VALUES = ("mean", "high", "peak")
COUNT = "count_over_time({})"
CHANGES = "changes({})"
INCREASE = "increase({})"
LATEST = "max_over_time({})"


@dataclass(frozen=True, slots=True)
class Kept:
    """Which samples count. ``most`` is compared before series are joined, where NaN fails too.

    ``least`` may come after: a maximum that is too small had nothing better in it, and joined series have fewer labels,
    so that a comparison costs half.
    """

    most: str = ""
    least: str = ""


SHOWN = Kept()  # every sample, blank or not
NO_BLANKS = Kept(f"< {BLANK:.0f}", ">= 0")
A_RATIO = Kept(f"<= {MOST_OF_A_RATIO:g}", ">= 0")
ABOVE_ONE = Kept(f"<= {MOST_OF_A_RATIO:g}", "> 1")
A_COUNTER = Kept("< 1e14", ">= 0")  # millijoules pass the blanks of 32 bits; those of 64 bits and of floats do not


@dataclass(frozen=True, slots=True)
class Replace:
    """`label_replace(…, target, value, source, pattern)`. Targets are new labels: the old ones keep series apart."""

    target: str
    value: str
    source: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Matcher:
    """`label=~"a|b|c"`, each value as it is; no values: any."""

    label: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.label}=~{quote('|'.join(map(literal, self.values)) if self.values else '.+')}"


def selector(families: Sequence[str], matchers: Sequence[str] = (), any_of: Sequence[Matcher] = ()) -> str:
    """Series of any of these families. ``any_of``: the same thing under several labels' names."""
    name = f"__name__=~{quote('|'.join(families))}"
    parts = [f"{{{', '.join([name, *matchers, *more])}}}" for more in ([[str(m)] for m in any_of] or [[]])]
    return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"


def joined(vector: str, kept: Kept, replaces: Sequence[Replace], labels: Sequence[str]) -> str:
    """One series per device: what ``kept`` lets through, the largest of what has the same ``labels``."""
    text = f"{vector} {kept.most}".strip()
    for r in replaces:
        text = f"label_replace({text}, {quote(r.target)}, {quote(r.value)}, {quote(r.source)}, {quote(r.pattern)})"
    return f"max by ({', '.join(labels)}) ({text}) {kept.least}".strip()


def over(function: str, vector: str, window: Window) -> str:
    """A millisecond less than the window: then servers that count both ends and those that do not see the same."""
    milliseconds = max(1, round(window.points * window.step * 1000) - 1)
    return function.format(f"({vector})[{milliseconds}ms:{duration(window.step)}]")


def each_step(function: str, selectors: Iterable[str], window: Window) -> str:
    """Over the samples as they were stored since the step before: nothing was dropped yet."""
    texts = [function.format(f"{text}[{duration(window.step)}]") for text in selectors]
    return texts[0] if len(texts) == 1 else f"({' or '.join(texts)})"


def timestamps(selectors: Iterable[str]) -> str:
    """When the newest sample was taken. `timestamp` drops the family's name, so each family stands alone."""
    texts = [f"timestamp({text})" for text in selectors]
    return texts[0] if len(texts) == 1 else f"({' or '.join(texts)})"


def aligned(window: Window) -> Window:
    """Ends at a whole multiple of the step, where subqueries are sampled, and is a whole number of steps long."""
    end = math.floor(window.end / window.step + 1e-9) * window.step
    return Window(end - window.points * window.step, end, window.step)


def split(series: Mapping[K, int], points: int, budget: int) -> list[tuple[K, ...]]:
    """ceil(series × points ÷ budget) balanced batches, fewer where there are fewer keys: a key is never split.

    The largest go first, each to the batch that is smallest so far, so that batches differ by one key at most where all
    are alike (Graham, "Bounds on multiprocessing timing anomalies", 1969).
    """
    number = min(len(series), -(-sum(series.values()) * points // budget))
    batches: list[list[K]] = [[] for _ in range(number)]
    heap = [(0, n) for n in range(number)]
    for key in sorted(series, key=lambda k: (-series[k], k)):
        size, n = heapq.heappop(heap)
        batches[n].append(key)
        heapq.heappush(heap, (size + series[key], n))
    return [tuple(sorted(batch)) for batch in batches]


def duration(seconds: float) -> str:
    milliseconds = max(1, round(seconds * 1000))
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def quote(text: str) -> str:
    """A string of PromQL."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def literal(text: str) -> str:
    """A pattern of RE2 that matches this text only."""
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text)
