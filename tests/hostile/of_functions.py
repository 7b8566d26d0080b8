"""What the control plane is given: executions and events, parameters, prices, metrics, hosts' answers, its ledger."""

# ruff: noqa: E501
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from peaker.adapters import aws_price_list, step_functions_executions
from peaker.adapters.cloudwatch.metrics import CloudWatchLoadHistory
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.ec2.snapshot_blocks import EbsSnapshotBlocks
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker.adapters.ssm.commands import SsmCommands
from peaker.adapters.ssm.prices import ParameterPrices
from peaker.domain import host_results, instants
from peaker.domain.forecasting import UnusableSeries
from peaker.domain.forecasting.series import series_from_points
from peaker.domain.issued import LoadPoints
from peaker.domain.reading import Known
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus
from peaker.domain.report.run_progress import run_progress
from peaker.domain.runs.execution_input import ExecutionInput, execution_input_problems, parse_execution_input
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import RunPart, StepRow
from peaker.domain.runs.run import ExecutionRequest, StoppedExecution
from peaker.domain.storage import storage_judgement
from peaker.domain.storage.iostat_columns import IostatFormatError
from peaker.domain.storage.iostat_text import read_iostat
from peaker.domain.storage.prewarm_progress import noticed_after_seconds, pause_seconds
from peaker.domain.storage.set_manifest import stacks_of
from peaker.usecases.forecast.forecast_load import forecast_load
from peaker.usecases.run.run_host_command import _result
from peaker.usecases.run.validate_request import validate_request
from peaker.usecases.undo.identify_stopped_run import identify_stopped_run

from lab.simulated_hosts import HEALTHY
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import (
    AwsCallRejected,
    BinlogsGone,
    HostCommandFailed,
    InvalidRequest,
    LedgerInconsistent,
    NothingToUndo,
    PeakerError,
    UnknownCluster,
)
from sim.calm import calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.contract.run_parts import ONE_OF_EACH, RUN
from tests.hostile.entry_point import DOCUMENT, JSON_TEXT, TEXT, EntryPoint, Form, told_plainly
from tests.hostile.of_hosts import STACK
from tests.hostile.payloads import CANARY
from tests.support.builders import BASE, RUN_ID, orders, with_cluster
from tests.unit.usecases.forecast.test_forecast_load import Published

REQUEST: dict[str, Any] = {"cluster": "orders", "mode": "act", "count": 1, "reason": "sale at eight"}
BY_ALARM: dict[str, Any] = {
    "cluster": "orders",
    "trigger": {
        "kind": "alarm", "alarm": "peaker-local-orders-shortage", "at": "2026-11-21T01:40:00Z",
        "reason": "Threshold Crossed: 1 datapoint [2.0 (21/11/26 01:35:00)] was greater than the threshold (0.0).",
    },
}  # fmt: skip
OF_SCALE_IN: dict[str, Any] = {"cluster": "orders", "replica": "i-0123456789abcdef0"}
EVENT: dict[str, Any] = {
    "name": "manual-1", "stateMachineArn": "arn:aws:states:us-east-1:111111111111:stateMachine:peaker-local-scale_out",
    "startDate": 1795225200000, "status": "ABORTED", "input": json.dumps(REQUEST), "cause": None,
}  # fmt: skip
CAUSES = (
    {"errorType": "StorageNotWarm", "errorMessage": "3 % cold", "stackTrace": []},
    {"failed_step": "VerifyStorage", "error": "StorageNotWarm", "cause": '{"errorMessage": "3 % cold"}'},
    {"Error": "PrewarmFailed", "Cause": 'ReportPrewarm: {"errorMessage": "the engine died"}'},
)
LOADS = [
    {
        "name": "data",
        "load": {
            "seconds": 10, "nvme": {"ebs_volume_performance_exceeded_iops": 12},
            "iostat": {
                "device": "nvme1n1", "r/s": 900.0, "w/s": 0.0, "rkB/s": 14400.0, "r_await": 0.9, "rareq-sz": 16.0,
                "aqu-sz": 0.9, "util": 80.0,
            },
        },
    }
]  # fmt: skip
IOSTAT_TEXT = """Linux 6.1.0 (db1)  11/21/2026  _x86_64_  (8 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           4.01    0.00    1.27    2.10    0.00   92.62

Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz  aqu-sz  %util
nvme1n1        900.00  14400.00     0.00   0.00    0.90    16.00    0.00      0.00     0.00   0.00    0.00     0.00    0.90  80.00
nvme2n1          1.00     16.00     0.00   0.00    0.50    16.00    2.00     32.00     0.00   0.00    0.70    16.00    0.01   1.00

"""
OLD_IOSTAT = """Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util
sdb               0,00     0,00  900,00    0,00 28800,00     0,00    32,00     0,90    0,90   0,80  80,00

"""
PRODUCT = {
    "product": {"attributes": {"usagetype": "USE1-EBS:VolumeUsage.gp3", "instanceType": "r6i.large"}},
    "terms": {
        "OnDemand": {
            "A.B": {"priceDimensions": {"A.B.C": {"unit": "GB-Mo", "pricePerUnit": {"USD": "0.08"}}}}
        }
    },
}
PRICES = {
    "region": "us-east-1", "fetched_at": "2026-11-20T00:00:00Z", "instance_hourly_usd": {"r6i.large": 0.126},
    "ebs": {"gp3_gib_month": 0.08}, "failed_at": None, "failure": None,
}  # fmt: skip
PREWARM_NUMBERS = {
    **HEALTHY["report_prewarm"],
    "state": "running",
    "eta_seconds": 1800.5,
}
OF_A_HOST: Mapping[str, tuple[type[host_results.HostResult], Any]] = {
    "prepare_donor": (host_results.DonorPrepared, HEALTHY["prepare_donor"]),
    "assemble_storage": (host_results.StorageAssembled, {"image": ["SELinux of the image is unknown"]}),
    "report_prewarm": (host_results.PrewarmReport, PREWARM_NUMBERS),
    "verify_storage": (host_results.StorageProof, HEALTHY["verify_storage"]),
    "report_work": (host_results.WorkReport, HEALTHY["report_work"]),
    "check_mounts": (host_results.MountsChecked, HEALTHY["check_mounts"]),
    "measure_service": (host_results.ServiceReport, HEALTHY["measure_service"]),
    "report_health": (host_results.HealthReport, HEALTHY["report_health"]),
    "drain_replica": (host_results.DrainReport, HEALTHY["drain_replica"]),
    "stop_database": (host_results.DatabaseStopped, HEALTHY["stop_database"]),
}
SETTINGS = orders()


def entries() -> list[EntryPoint]:
    """All of them."""
    return [
        *_requests(), *_hosts(), *_ledger(), *_parameters(), *_measured(), *_storage(), *_services(),
    ]  # fmt: skip


def _requests() -> Iterator[EntryPoint]:
    for operation in (None, "scale_out", "scale_in"):
        yield EntryPoint(
            f"execution input, {operation or 'any'}", DOCUMENT,
            lambda case, operation=operation: parse_execution_input(case, operation),
            (REQUEST, BY_ALARM, OF_SCALE_IN), (InvalidRequest,),
            _input_is_plain,
        )  # fmt: skip
    yield EntryPoint(
        "ValidateRequest", DOCUMENT,
        lambda case: validate_request(
            calm_ports(SETTINGS),
            ExecutionRequest(operation="scale_out", execution_name="e", started_at=NOON, input=case),
        ),
        (REQUEST, BY_ALARM), (InvalidRequest, UnknownCluster),
        _identity_is_plain,
    )  # fmt: skip
    yield EntryPoint(
        "the event of a stopped execution", DOCUMENT, _identified, (EVENT, {**EVENT, "input": json.dumps(BY_ALARM)}),
        (InvalidRequest, NothingToUndo),
    )  # fmt: skip
    yield EntryPoint(
        "a cause", JSON_TEXT, lambda case: Failure(failed_step="S", error="E.x", cause=case).innermost().sentence, CAUSES, (), weight=1.5,
    )  # fmt: skip
    yield EntryPoint(
        "an instant", TEXT, instants.from_iso, ("2026-11-21T01:40:00.000Z", "2026-11-21T01:40:00+01:00"), (ValueError,),
    )  # fmt: skip


def _identified(case: Any) -> Any:
    # EventBridge gives the event its form; what stands in these fields is whoever's who started the execution.
    whole = case if isinstance(case, dict) else {}
    said = {name: str(whole[name]) for name in ("input", "name", "cause") if whole.get(name) is not None}
    stopped = StoppedExecution.model_validate({**EVENT, **said})
    ports = with_cluster(calm_ports(SETTINGS))
    return identify_stopped_run(ports, stopped)


def _hosts() -> Iterator[EntryPoint]:
    own = (HostCommandFailed, BinlogsGone)
    for document, (model, numbers) in OF_A_HOST.items():

        def answered(case: str, document: str = document, model: Any = model) -> Any:
            outcome = CommandOutcome(CommandStatus.SUCCESS, stdout=f"progress\n{case}\n"[:24_000])
            return host_results.typed(document, model, _result(document, "i-1", outcome))

        yield EntryPoint(
            f"answer to {document}", JSON_TEXT, answered, ({"version": 1, "command": document, "ok": True, **numbers},), own,
            _numbers_are_numbers,
        )  # fmt: skip
    yield EntryPoint(
        "answer of a command that failed", JSON_TEXT,
        lambda case: _result("d", "i-1", CommandOutcome(CommandStatus.FAILED, "Failed", f"{case}\n"[:24_000], case[:24_000])),
        ({"version": 1, "command": "d", "ok": False, "error": "BinlogsGone", "message": "purged"},), own,
    )  # fmt: skip
    yield EntryPoint(
        "what the donor stands on", DOCUMENT, _layout, ([STACK],), own,
    )  # fmt: skip
    report = host_results.PrewarmReport.model_validate
    yield EntryPoint(
        "a prewarm's remaining time", DOCUMENT, lambda case: _when(report({**PREWARM_NUMBERS, "eta_seconds": case["eta_seconds"]})),
        ({"eta_seconds": 90.5},), (ValueError, KeyError, TypeError),
    )  # fmt: skip
    yield EntryPoint(
        "a prewarm at work, as the ledger has it", DOCUMENT,
        lambda case: run_progress(
            [StepRow("StartPrewarm", NOON, NOON), StepRow("ReportPrewarm", NOON, NOON + timedelta(minutes=1), case)],
            SETTINGS, NOON + timedelta(hours=1),
        ),
        (PREWARM_NUMBERS,), (),
    )  # fmt: skip


def _layout(case: Any) -> Any:
    numbers = {**HEALTHY["prepare_donor"], "layout": case}
    prepared = host_results.typed("prepare_donor", host_results.DonorPrepared, numbers)
    return stacks_of(prepared.layout or [])


def _when(report: host_results.PrewarmReport) -> Any:
    eta = report.eta_seconds
    return pause_seconds(eta), NOON + timedelta(seconds=noticed_after_seconds(eta or 0.0))


class _Wire:
    """DynamoDB that holds one item, or one row of each query, as it would be on the wire."""

    def __init__(self, item: Any) -> None:
        self._item = item

    def get_item(self, **_: Any) -> Any:
        return {} if self._item is None else {"Item": self._item}

    def query(self, **_: Any) -> Any:
        return {"Items": [self._item]}

    def get_paginator(self, _name: str) -> Any:
        return SimpleNamespace(paginate=lambda **_: [{"Items": [self._item]}])


def wired(case: Any) -> Any:
    """A plain object as DynamoDB gives it: every value under the letter of its type."""
    if not isinstance(case, dict):
        return {}
    return {str(name): _typed(value) for name, value in case.items()}


def _typed(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, bool):
        return {"NULL": True} if value is None else {"BOOL": value}
    if isinstance(value, int | float):
        # DynamoDB has no others: numbers of up to 38 digits.
        return {"N": str(value) if abs(value) < 1e30 else "9e125"}
    if isinstance(value, str):
        return {"S": value}
    return {"L": [_typed(one) for one in value]} if isinstance(value, list) else {"M": wired(value)}


def _ledger() -> Iterator[EntryPoint]:
    own = (LedgerInconsistent,)
    for part in ONE_OF_EACH:

        def settled(case: str, kind: type[RunPart] = type(part)) -> Any:
            return type(RUN)(**{**asdict_shallow(RUN), "parts": {kind.ledger_name: case}}).part(kind)

        yield EntryPoint(
            f"part {part.ledger_name} of a run", JSON_TEXT, settled, (json.loads(part.model_dump_json()),), own, weight=0.6,
        )  # fmt: skip
    at = "2026-11-21T12:00:00.000Z"
    run = {
        "run_id": RUN_ID, "cluster": "orders", "operation": "scale_out", "started_at": at, "outcome": "running",
        "finished_at": None, "request": json.dumps(REQUEST), "donor": '{"instance_id": "i-1", "volumes": {}}',
    }  # fmt: skip
    resource = {
        "number": 1, "kind": "volume", "name": "data", "state": "made", "step": "CreateVolumes", "intended_at": at,
        "made_at": at, "id": "vol-1", "details": "{}",
    }  # fmt: skip
    step = {"step": "Prewarm", "started_at": at, "finished_at": at, "numbers": '{"bytes_read": 12}'}
    replica = {
        "instance_id": BASE, "run_id": RUN_ID, "state": "parked", "changed_at": at,
        "parking": json.dumps({
            "parked_at": at, "gtid_set": None, "binlog_expire_seconds": 9.0, "until": at, "until_reason": "binlogs",
            "spent": None, "failed_return": None, "incomplete_since": at,
        }),
    }  # fmt: skip
    kept = {"document": json.dumps({
        "cluster": "orders", "run_id": RUN_ID, "donor": BASE, "kept_at": at, "snapshots": {"data": "snap-1"},
        "sources": {"data": "vol-1"}, "full_bytes": {"data": 9},
    })}  # fmt: skip
    lease = {
        "run_id": RUN_ID,
        "operation": "scale_out",
        "fencing_token": 7,
        "held_until": "2026-11-22T12:00:00.000Z",
    }

    def of(name: str, read: Callable[[Any], Any], *examples: Any) -> EntryPoint:
        return EntryPoint(
            name, DOCUMENT, lambda case: read(_Wire(wired(case))), examples, own, _rows_are_rows
        )

    def ledger(wire: Any) -> DynamoDbLedger:
        return DynamoDbLedger(LedgerTable(wire, "t"))

    yield of(
        "a run's row", lambda wire: ledger(wire).run(RUN_ID), run,
    )  # fmt: skip
    yield of(
        "a resource's row",
        lambda wire: ledger(wire).resources(RUN_ID),
        resource,
    )
    yield of("a step's row", lambda wire: ledger(wire).steps(RUN_ID), step)
    yield of(
        "a replica's row", lambda wire: ledger(wire).replicas("orders"),
        replica, {**replica, "state": "in_service", "parking": None},
    )  # fmt: skip
    yield of(
        "a kept snapshot set",
        lambda wire: ledger(wire).snapshot_sets("orders"),
        kept,
    )
    yield of(
        "a receipt's row", lambda wire: ledger(wire).receipt(RUN_ID),
        {"document": '{"run_id": "r"}'},
    )  # fmt: skip
    yield of(
        "a lease", lambda wire: DynamoDbLease(LedgerTable(wire, "t")).current("orders", NOON), lease,
    )  # fmt: skip
    state = {"low_checks": 2, "source_id": BASE, "first_check_seconds": 1795225200.0}
    issued = {
        "issued_at_seconds": 1795225200.0, "target_seconds": 1795226200.0, "p50": 1.5, "p95": 2.5, "required": 2,
    }  # fmt: skip

    def records(wire: Any) -> DynamoForecastRecords:
        return DynamoForecastRecords(LedgerTable(wire, "t"), ledger(wire))

    yield of(
        "the forecast's state",
        lambda wire: records(wire).check_state("orders"),
        state,
    )
    yield of("an issued forecast", lambda wire: records(wire).issued("orders", NOON), issued)
    yield of(
        "the newest check's report",
        lambda wire: records(wire).report("orders"),
        {"document": '{"at": "x"}'},
    )
    yield of(
        "past steps", lambda wire: records(wire).past_steps("orders"),
        {
            **run, **step, "sk": f"run#{at}#{RUN_ID}", "outcome": "succeeded", "step": "VerifyStorage",
            "numbers": json.dumps({"limits": [{"verdict": "iops_limited", "iops_promised": 3000, "iops_delivered": 2000}]}),
        },
        {
            **run, **step, "sk": f"run#{at}#{RUN_ID}", "outcome": "succeeded", "step": "AwaitSnapshots",
            "numbers": json.dumps({"full_copy": True}),
        },
    )  # fmt: skip


def asdict_shallow(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def _parameters() -> Iterator[EntryPoint]:
    settings = SETTINGS.model_dump(mode="json")

    def clusters(case: str) -> Any:
        store = ParameterClusters.__new__(ParameterClusters)
        store._environment = "local"
        store._read = lambda cluster: case  # type: ignore[method-assign]
        return store.settings("orders")

    def prices(case: str) -> Any:
        ssm = SimpleNamespace(get_parameter=lambda **_: {"Parameter": {"Value": case}})
        return ParameterPrices(ssm, "local").read()  # type: ignore[arg-type]

    def quoted(case: str) -> Any:
        pages = SimpleNamespace(paginate=lambda **_: [{"PriceList": [case]}])
        client = SimpleNamespace(get_paginator=lambda _: pages)
        return aws_price_list.AwsPriceList(lambda _: client).quote("us-east-1", ["r6i.large"])

    yield EntryPoint(
        "a cluster's parameter", JSON_TEXT, clusters, (settings,), (InvalidRequest,), _settings_are_plain,
    )  # fmt: skip
    yield EntryPoint(
        "the prices' parameter", JSON_TEXT, prices, (PRICES,), (),
        _numbers_are_numbers,
    )  # fmt: skip
    yield EntryPoint(
        "a product of the Price List", JSON_TEXT, quoted, (PRODUCT,), (AwsCallRejected,), _numbers_are_numbers,
    )  # fmt: skip


def _points(case: Any) -> Any:
    """GetMetricData's answer: instants within a year, values that may be anything that a double can be."""
    whole = case if isinstance(case, dict) else {}
    times, values = whole.get("times"), whole.get("values")
    instants_of = [
        NOON - timedelta(minutes=float(at) % 500_000)
        for at in (times if isinstance(times, list) else [])
        if isinstance(at, int | float) and abs(at) < 1e30
    ]
    numbers = [
        float(value) for value in (values if isinstance(values, list) else [])
        if (isinstance(value, int | float) and abs(value) < 1e308) or isinstance(value, float)
    ]  # fmt: skip
    return [{"MetricDataResults": [{"Id": "wanted", "Timestamps": instants_of, "Values": numbers}]}]


def _cloudwatch(case: Any) -> Any:
    return SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=lambda **_: _points(case)))


def _measured() -> Iterator[EntryPoint]:
    series = {
        "times": [5.0 * number for number in range(40)],
        "values": [100.0 + number for number in range(40)],
    }
    yield EntryPoint(
        "the load now", DOCUMENT, lambda case: CloudWatchReadings(_cloudwatch(case)).load(SETTINGS, NOON), (series,),
        (AwsCallRejected,), _a_known_load_is_a_number,
    )  # fmt: skip
    yield EntryPoint(
        "the load's history", DOCUMENT,
        lambda case: CloudWatchLoadHistory(_cloudwatch(case)).points(SETTINGS, NOON - timedelta(days=1), NOON), (series,),
        (AwsCallRejected,),
    )  # fmt: skip
    yield EntryPoint(
        "points on a grid",
        DOCUMENT,
        _gridded,
        (series,),
        (UnusableSeries,),
    )
    yield EntryPoint(
        "a scheduled check", DOCUMENT, _checked_load, (series,), (PeakerError,), _held_on_nonsense, 0.02
    )


def _numbers(case: Any, name: str) -> list[float]:
    found = case.get(name) if isinstance(case, dict) else None
    return [
        float(one) for one in (found if isinstance(found, list) else [])
        if isinstance(one, int | float) and (isinstance(one, float) or abs(one) < 1e300)
    ]  # fmt: skip


def _gridded(case: Any) -> Any:
    return series_from_points(_numbers(case, "times"), _numbers(case, "values"), now_seconds=NOON.timestamp())


class _History:
    def __init__(self, case: Any) -> None:
        self._case = case

    def points(self, *_: Any) -> LoadPoints:
        times, values = _numbers(self._case, "times"), _numbers(self._case, "values")
        kept = min(len(times), len(values))
        at = [
            NOON.timestamp() - 300 * number if abs(time) < 1e9 else time
            for number, time in enumerate(times[:kept])
        ]
        return LoadPoints(at, values[:kept], 300.0)

    def events(self, *_: Any) -> LoadPoints:
        return self.points()


def _checked_load(case: Any) -> Any:
    published = Published()
    ports = replace(with_cluster(calm_ports()), history=_History(case), metrics=published)  # type: ignore[arg-type]
    return forecast_load(ports, "orders"), published


def _storage() -> Iterator[EntryPoint]:
    own = (IostatFormatError,)
    text: Form = TEXT
    yield EntryPoint(
        "iostat, text", text, read_iostat, (IOSTAT_TEXT, OLD_IOSTAT, IOSTAT_TEXT * 3), own, weight=1.5,
    )  # fmt: skip
    from tests.hostile.of_hosts import IOSTAT

    yield EntryPoint("iostat, JSON", JSON_TEXT, read_iostat, (IOSTAT,), own)
    yield EntryPoint(
        "load tests of a proof", DOCUMENT,
        lambda case: (
            storage_judgement.judge_loads(case, SETTINGS.volumes),
            storage_judgement.together_against_plan(case, SETTINGS.volumes[:1], storage_judgement.InstancePromise()),
        ),
        (LOADS,), (),
    )  # fmt: skip
    limits = [{"verdict": "iops_limited", "iops_delivered": 2000.0, "iops_promised": 3000.0}]
    yield EntryPoint("share at the knee", DOCUMENT, storage_judgement.knee_share, (limits,), ())


def _services() -> Iterator[EntryPoint]:
    def given(case: str) -> Any:
        client = SimpleNamespace(describe_execution=lambda **_: {"input": case})
        return step_functions_executions.StepFunctionsExecutions(client, "arn:")._given_name("arn")  # type: ignore[arg-type]

    yield EntryPoint(
        "what a roll_back was given", JSON_TEXT, given, (EVENT,), (),
    )  # fmt: skip
    answer = {
        "Status": "Success",
        "StatusDetails": "Success",
        "StandardOutputContent": "{}",
        "StandardErrorContent": "",
    }
    yield EntryPoint(
        "a command's outcome", DOCUMENT,
        lambda case: SsmCommands(
            SimpleNamespace(get_command_invocation=lambda **_: {**answer, "Status": str(case)}), None, "local",  # type: ignore[arg-type]
        ).outcome("c", "i-1"),
        ("Success", "InProgress"), (AwsCallRejected,), weight=0.2,
    )  # fmt: skip

    def held(case: Any) -> Any:
        indices = [one for one in case if type(one) is int] if isinstance(case, list) else []
        blocks = [{"BlockIndex": one} for one in indices]
        return EbsSnapshotBlocks(SimpleNamespace(list_snapshot_blocks=lambda **_: {"Blocks": blocks})).held(
            "snap-1", 2, 60.0
        )  # type: ignore[arg-type]

    yield EntryPoint(
        "blocks of a snapshot", DOCUMENT, held, ([0, 1, 2, 7, 9],), (AwsCallRejected,), weight=0.3,
    )  # fmt: skip


# --- what must not be there afterwards


def _input_is_plain(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if isinstance(answer, Exception):
        _lines_name_fields(answer)
        return
    assert isinstance(answer, ExecutionInput)
    assert set(answer.cluster) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert answer.replica is None or set(answer.replica) <= set("i-0123456789abcdef")
    assert answer.reason is None or answer.reason.isprintable()
    assert execution_input_problems(case) == {}


def _lines_name_fields(error: Exception) -> None:
    for line in str(error).split("\n"):
        assert line.isprintable(), "a control character in what a person reads"
        assert ": " in line, "no field is named"


def _identity_is_plain(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if not isinstance(answer, Exception):
        assert CANARY not in answer.run_id
        assert len(answer.run_id) <= 60
        assert set(answer.run_id) <= set("abcdefghijklmnopqrstuvwxyzT0123456789-")


def _numbers_are_numbers(case: Any, answer: Any) -> None:
    """Nothing that was measured or priced is not a number, or without end."""
    told_plainly(case, answer)
    if not isinstance(answer, Exception) and hasattr(answer, "model_dump"):
        assert "NaN" not in (text := json.dumps(answer.model_dump(mode="python"), default=str))
        assert "Infinity" not in text


def _rows_are_rows(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if isinstance(answer, Exception):
        assert "ledger" in str(answer)


def _settings_are_plain(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if isinstance(answer, ClusterSettings):
        assert CANARY not in answer.name + answer.region + answer.environment + answer.instance_type
        assert all(one.mount_point.isprintable() and CANARY not in one.mount_point for one in answer.volumes)


def _a_known_load_is_a_number(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if isinstance(answer, Known):
        assert abs(answer.value) < float("inf")


def _held_on_nonsense(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if not isinstance(answer, Exception):
        report, published = answer
        assert 0 <= report.required <= SETTINGS.max_replicas
        assert "NaN" not in json.dumps(report.model_dump(mode="json"))
        assert all(abs(value) < 1e300 for value in published.values.values() if value == value)
