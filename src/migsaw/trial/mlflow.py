"""A run of MLflow that is made here and handed to the command; mlflow itself is optional."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from migsaw.errors import InputError, MigsawError
from migsaw.model.trial import MlflowReading

T = TypeVar("T")
EXPERIMENT = "0"  # MLflow's own default one


@dataclass
class MlflowRun:
    """``environment``: with it ``mlflow.start_run()`` in the command goes on with the run that is read here."""

    reading: MlflowReading
    name: str
    environment: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ModuleNotFoundError:
            raise InputError("MLflow is not installed", hint="pip install 'migsaw[mlflow]'") from None
        self._client: Any = _asked(lambda: MlflowClient(tracking_uri=self.reading.tracking_uri))
        tags = {"mlflow.runName": f"migsaw trial of {self.name}"}
        self._id: str = _asked(lambda: self._client.create_run(EXPERIMENT, tags=tags)).info.run_id
        uri = {"MLFLOW_TRACKING_URI": self.reading.tracking_uri} if self.reading.tracking_uri else {}
        self.environment = {"MLFLOW_RUN_ID": self._id, **uri}

    def values(self) -> list[tuple[float, float]]:
        """(seconds of MLflow's clock, value) of the metric, in their order in time."""
        history = _asked(lambda: self._client.get_metric_history(self._id, self.reading.metric))
        return [(metric.timestamp / 1000, float(metric.value)) for metric in sorted(history, key=lambda m: m.timestamp)]

    def close(self) -> None:
        with contextlib.suppress(MigsawError):  # what was measured counts, not how the run looks in a list
            _asked(lambda: self._client.set_terminated(self._id))


def _asked(question: Callable[[], T]) -> T:
    """Whatever MLflow's many back ends raise is one error here."""
    try:
        return question()
    except Exception as problem:
        said = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise MigsawError(f"MLflow: {said}", hint="is `tracking_uri` right, and does the server run?") from None
