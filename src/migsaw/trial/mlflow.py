"""A metric of an MLflow run that is made here and handed to the command; mlflow itself is optional."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from migsaw.errors import InputError, MigsawError
from migsaw.model.trial import MlflowReading
from migsaw.trial.events import Event, Value

EXPERIMENT = "0"  # MLflow's own default one


@dataclass
class MlflowReader:
    """``environment``: with it ``mlflow.start_run()`` in the command goes on with the run that is read here."""

    reading: MlflowReading
    name: str
    environment: Mapping[str, str] = field(init=False)
    next_at: float = 0.0
    seen: int = 0  # values

    def __post_init__(self) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ModuleNotFoundError:
            raise InputError("MLflow is not installed", hint="pip install 'migsaw[mlflow]'") from None
        self._client: Any = MlflowClient(tracking_uri=self.reading.tracking_uri)
        try:
            run = self._client.create_run(EXPERIMENT, tags={"mlflow.runName": f"migsaw trial of {self.name}"})
        except Exception as problem:  # of any HTTP or file client
            raise MigsawError(f"MLflow: {problem}", hint="is `tracking_uri` right, and does the server run?") from None
        self._run: str = run.info.run_id
        uri = {"MLFLOW_TRACKING_URI": self.reading.tracking_uri} if self.reading.tracking_uri else {}
        self.environment = {"MLFLOW_RUN_ID": self._run, **uri}

    def line(self, seconds: float, text: str) -> Iterator[Event]:
        return iter(())

    def poll(self, seconds: float) -> Iterator[Event]:
        """Values are placed in time by MLflow's own stamps; the newest counts as now."""
        if seconds < self.next_at:
            return
        self.next_at = seconds + self.reading.every_seconds
        history = sorted(self._client.get_metric_history(self._run, self.reading.metric), key=lambda m: m.timestamp)
        new, self.seen = history[self.seen :], len(history)
        for metric in new:
            yield Value(seconds - (new[-1].timestamp - metric.timestamp) / 1000, float(metric.value))
