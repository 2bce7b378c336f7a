"""Runs one command, or several copies of it, and gives their lines as they come. No shell; none outlives a trial."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

from migsaw.errors import MigsawError
from migsaw.trial import guard

TICK_SECONDS = 0.2
LONGEST_LINE = 1 << 16  # bytes; a progress bar that never ends its line is cut here
READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Line:
    seconds: float
    process: int
    text: str
    is_error: bool  # of stderr


@dataclass(slots=True)
class _Pipe:
    process: int
    stream: IO[bytes]
    is_error: bool
    rest: bytes = b""

    def lines(self, content: bytes) -> list[str]:
        r"""What became whole with ``content``; ``\r`` ends a line too, as progress bars write it."""
        parts = (self.rest + content).replace(b"\r", b"\n").split(b"\n")
        self.rest = parts.pop()
        if len(self.rest) > LONGEST_LINE or (not content and self.rest):
            parts.append(self.rest)
            self.rest = b""
        return [part.decode("utf-8", "replace") for part in parts if part]


@dataclass(slots=True)
class _Guarded:
    process: subprocess.Popen[bytes]
    life: int  # the pipe's end whose closing ends the group

    def end(self) -> None:
        if self.life >= 0:
            os.close(self.life)
            self.life = -1


@dataclass
class Processes:
    """A context manager: on the way out every process is ended and waited for."""

    command: Sequence[str]
    folder: Path
    env: Sequence[Mapping[str, str]]  # one process for each
    is_quiet: bool = False  # nobody reads what it writes
    _guarded: list[_Guarded] = field(default_factory=list)
    _begun: float = 0.0

    def __enter__(self) -> Processes:
        self._begun = time.monotonic()
        try:
            for env in self.env:
                self._start(env)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def lines(self) -> Iterator[Line | None]:
        """Lines in the order of their arrival, None every ``TICK_SECONDS`` or so; ends when all processes have."""
        ticked = -TICK_SECONDS
        with selectors.DefaultSelector() as selector:
            for each in self._pipes():
                selector.register(each.stream, selectors.EVENT_READ, each)
            while selector.get_map():
                for key, _ in selector.select(TICK_SECONDS / 2):
                    pipe: _Pipe = key.data
                    content = os.read(pipe.stream.fileno(), READ_BYTES)
                    if not content:
                        selector.unregister(pipe.stream)
                    now = self.seconds
                    yield from (Line(now, pipe.process, text, pipe.is_error) for text in pipe.lines(content))
                if self.seconds - ticked >= TICK_SECONDS:
                    ticked = self.seconds
                    yield None

    def codes(self) -> list[int]:
        """Exit codes, of processes whose output has ended."""
        return [guarded.process.wait() for guarded in self._guarded]

    def _pipes(self) -> Iterator[_Pipe]:
        for number, guarded in enumerate(self._guarded):
            out, err = guarded.process.stdout, guarded.process.stderr
            assert out is not None
            assert err is not None
            yield _Pipe(number, out, False)
            yield _Pipe(number, err, True)

    def _start(self, env: Mapping[str, str]) -> None:
        read, write = os.pipe()
        output = subprocess.DEVNULL if self.is_quiet else subprocess.PIPE
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, str(read), *self.command], cwd=self.folder, env={**env},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(read,), start_new_session=True,
            )  # fmt: skip
        except OSError as problem:
            os.close(write)
            raise MigsawError(f"no process can be started: {problem.strerror}") from None
        finally:
            os.close(read)
        self._guarded.append(_Guarded(process, write))

    def _end(self) -> None:
        """First all are told to end, then all are waited for: a second Ctrl-C while waiting keeps none alive."""
        for guarded in self._guarded:
            guarded.end()
        for guarded in self._guarded:
            guarded.process.wait()
            for stream in (guarded.process.stdout, guarded.process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
