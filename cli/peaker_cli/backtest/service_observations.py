"""The measure and the replicas of a backtest, from files and from CloudWatch, beside the load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from peaker.domain.reading import Unknown
from peaker_backtest.capacity.measure_input import check_measure, parse_measure, parse_serving
from peaker_backtest.capacity.observations import Limit, observe
from peaker_backtest.capacity.proposal import CapacityProposal, propose_capacity
from peaker_backtest.errors import BadInput, shown
from peaker_backtest.load_input import Choices, PastLoad, file_bytes, parse_load

from peaker_cli.backtest.live_load import Deployed
from peaker_cli.backtest.service_metric import read_measure, read_serving
from peaker_cli.backtest.service_options import ServiceOptions
from peaker_cli.control_plane import ControlPlane


@dataclass(frozen=True)
class LoadFile:
    """The file of the load, read once: standard input cannot be read again."""

    path: Path
    content: bytes

    @classmethod
    def at(cls, path: Path) -> LoadFile:
        """Raises BadInput."""
        return cls(path, file_bytes(path))

    @property
    def name(self) -> str:
        return "standard input" if str(self.path) == "-" else self.path.stem

    def load(self, choices: Choices) -> PastLoad:
        """Raises BadInput."""
        return parse_load(shown(str(self.path)), self.content, choices)


@dataclass(frozen=True)
class Loaded:
    """A load, and where it came from: a file, or CloudWatch by way of `control`."""

    name: str
    load: PastLoad
    file: LoadFile | None = None
    control: ControlPlane | None = None
    cluster: str | None = None
    deployed: Deployed | None = None
    history_days: int = 0


def check_service(service: ServiceOptions, source: Path | None) -> Limit | None:
    """The limit that is asked for, once the options go together with the load's source. Raises BadInput."""
    limit = service.limit()
    if limit is None:
        return None
    if service.metric is not None and source is not None:
        raise BadInput(
            "--measure-metric is read beside a load from CloudWatch: give --from-cloudwatch, or --measure with a file",
            field="--measure-metric",
        )
    for option, column, file in (
        ("--measure-column", service.measure_column, service.measure),
        ("--serving-column", service.serving_column, service.serving),
    ):
        if column is not None and file is None and source is None:
            raise BadInput(
                f"{option} is of a file: give {option.removesuffix('-column')} with one", field=option
            )
    if service.serving_column is not None and service.serving_count is not None:
        raise BadInput("--serving-column is of a file, and --serving is a number: leave one out",
                       field="--serving-column")  # fmt: skip
    return limit


def find_capacity(
    service: ServiceOptions, limit: Limit, loaded: Loaded, choices: Choices, now: float | None
) -> tuple[CapacityProposal, tuple[str, ...]]:
    """The proposal and how its series were read. Raises BadInput, and PeakerError where AWS does not answer."""
    measure = _measure(service, loaded, choices)
    check_measure(measure, limit)
    serving = _serving(service, loaded, choices)
    read = [f"measure: {line}" for line in measure.read]
    if isinstance(serving, Unknown):
        return propose_capacity(serving, limit, now), tuple(read)
    if isinstance(serving, PastLoad):
        read += [f"replicas: {line}" for line in serving.read]
    return propose_capacity(observe(loaded.load, measure, serving), limit, now), tuple(read)


def _measure(service: ServiceOptions, loaded: Loaded, choices: Choices) -> PastLoad:
    metric = service.metric
    if metric is not None and loaded.control is not None:
        return read_measure(loaded.control, metric, loaded.history_days)
    file = _file(service.measure, loaded)
    return parse_measure(shown(str(file.path)), file.content, choices, service.measure_column)


def _serving(service: ServiceOptions, loaded: Loaded, choices: Choices) -> PastLoad | Unknown | int:
    count = service.serving_count
    if count is not None:
        return count
    if service.serving is not None or service.serving_column is not None:
        file = _file(Path(service.serving) if service.serving else None, loaded)
        return parse_serving(shown(str(file.path)), file.content, choices, service.serving_column)
    if loaded.cluster is not None and loaded.control is not None:
        return read_serving(loaded.control, loaded.cluster, loaded.history_days)
    return Unknown("how many replicas served is not known: give --serving with a number or a file")


def _file(path: Path | None, loaded: Loaded) -> LoadFile:
    """The file that was named, else that of the load."""
    own = loaded.file
    if own is not None and (path is None or str(path) == str(own.path)):
        return own
    if path is None:
        raise BadInput("there is no file to read it from: give one", field="--measure")
    return LoadFile.at(path)
