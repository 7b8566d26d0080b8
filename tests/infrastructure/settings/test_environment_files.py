"""A bad environment file is refused with file, line, path, fault and remedy; a good one is taken as it is."""

from __future__ import annotations

import copy
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from annotated_types import Le, MaxLen

from environments import aws_names
from environments.faults import UnclearWord
from environments.schema import (
    ENVIRONMENTS_DIRECTORY,
    Environment,
    EnvironmentFileError,
    available_environments,
    load_environment,
)
from environments.yaml_text import read_document
from peaker_contract import errors
from peaker_contract.cluster import ClusterSettings, deployed_document
from peaker_contract.endpoint_settings import LONGEST_WAIT_SECONDS
from peaker_contract.field_types import MOST_REPLICAS
from peaker_contract.storage_settings import GateSettings
from statemachines import structure
from tests.infrastructure.settings.wrong_environment_files import (
    LEFT_OUT,
    WRONG_FILES,
    WRONG_TEXTS,
    WRONG_WHOLES,
    WrongFile,
    WrongText,
)
from tests.support.workflows import MACHINES

Document = dict[str, Any]
GIVEN = Path(__file__).with_name("environment_files")
SHOP_TEXT = (GIVEN / "shop.yaml").read_text(encoding="utf-8")
EARLY = datetime(2026, 11, 1, tzinfo=UTC)


def shop() -> Document:
    document: Document = copy.deepcopy(read_document(GIVEN / "shop.yaml", "shop.yaml").value)
    return document


def changed(document: Document, changes: dict[str, Any]) -> Document:
    """The document with other values at places such as `c.volumes.0.iops`."""
    for place, value in changes.items():
        *parents, last = place.replace("c.", "clusters.0.", place.startswith("c.")).split(".")
        if parents[:1] == ["d"]:
            parents[:1] = ["clusters", "1"]
        here: Any = document
        for part in parents:
            here = here[int(part)] if isinstance(here, list) else here.setdefault(part, {})
        key: Any = int(last) if isinstance(here, list) else last
        if value is LEFT_OUT:
            del here[key]
        else:
            here[key] = value
    return document


def written(document: Document, directory: Path) -> Path:
    path = directory / f"{document.get('environment') or 'shop'}.yaml"
    dumped = yaml.dump(document, Dumper=_Written, sort_keys=False, width=10_000, allow_unicode=True)
    path.write_text(dumped, encoding="utf-8")
    return path


class _Written(yaml.SafeDumper):
    """As a person writes it: no aliases, text in quotes, moments without."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Written.add_representer(
    UnclearWord, lambda dumper, word: dumper.represent_scalar("tag:yaml.org,2002:str", word.text)
)
_Written.add_representer(
    str, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')
)


def in_another_region(region: str) -> dict[str, Any]:
    subnets = {f"{region}a": "subnet-0b0d000000000001a"}
    return {"region": region} | {f"{one}.subnets": subnets for one in "cd"}


def refused(path: Path) -> str:
    with pytest.raises(EnvironmentFileError) as refusal:
        load_environment(path.stem, path.parent, now=EARLY)
    return str(refusal.value)


def told(line: str) -> tuple[str, int, str, str]:
    """File, line, path and fault of a line that is told."""
    place, path, fault = line.split(": ", 2)
    file, number = place.rsplit(":", 1)
    return file, int(number), path, fault


@pytest.mark.parametrize("wrong", WRONG_FILES, ids=lambda wrong: wrong.situation)
def test_wrong_setting_is_refused_where_it_stands(wrong: WrongFile, tmp_path: Path) -> None:
    path = written(changed(shop(), wrong.changes), tmp_path)
    [line] = refused(path).splitlines()
    file, number, blamed, fault = told(line)
    assert (file, blamed) == (f"{tmp_path.name}/{path.name}", wrong.blamed)
    assert wrong.said in fault
    setting, there = blamed.rsplit(".", 1)[-1], path.read_text(encoding="utf-8").splitlines()[number - 1]
    assert fault.startswith("is required") or setting.isdigit() or setting in there, (
        f"line {number} is {there!r}"
    )


@pytest.mark.parametrize("wrong", WRONG_TEXTS, ids=lambda wrong: wrong.situation)
def test_wrong_text_is_refused_in_its_line(wrong: WrongText, tmp_path: Path) -> None:
    assert isinstance(wrong.new, str)
    assert SHOP_TEXT.count(wrong.old) >= 1
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP_TEXT.replace(wrong.old, wrong.new, 1), encoding="utf-8")
    lines = refused(path).splitlines()
    # An anchor's fault stands also where its alias is used.
    assert len({line.rsplit(": ", 1)[0].rsplit(".", 1)[-1] for line in lines}) == 1, lines
    assert lines[0].startswith(f"{tmp_path.name}/shop.yaml:" + (f"{wrong.line}: " if wrong.line else ""))
    assert wrong.said in lines[0]


@pytest.mark.parametrize("wrong", WRONG_WHOLES, ids=lambda wrong: wrong.situation)
def test_file_that_is_no_environment_at_all_is_refused(wrong: WrongText, tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_bytes(wrong.new if isinstance(wrong.new, bytes) else wrong.new.encode())
    [line] = refused(path).splitlines()
    assert line.startswith(f"{tmp_path.name}/shop.yaml:" + (f"{wrong.line}: " if wrong.line else ""))
    assert wrong.said in line


def test_a_wrong_cluster_past_the_limit_of_clusters_is_told_too() -> None:
    """What validates a list that is too long tells only that; its clusters are read all the same."""
    [limit] = [
        one.max_length for one in Environment.model_fields["clusters"].metadata if isinstance(one, MaxLen)
    ]
    document = shop()
    document["clusters"] = [document["clusters"][0] | {"name": f"orders-{one}"} for one in range(limit + 2)]
    document["clusters"][limit] |= {"security_group_ids": [5], "capacity_per_replica": -1}
    with pytest.raises(EnvironmentFileError) as refusal:
        Environment.parse(document, "shop.yaml")
    said = str(refusal.value)
    assert f"clusters: must have at most {limit}: remove some" in said
    assert f"clusters.orders-{limit}.security_group_ids.0: must be text; write it in quotes, got 5" in said
    assert f"clusters.orders-{limit}.capacity_per_replica: must be above 0, got -1" in said


def test_a_key_that_is_no_text_hides_other_faults_and_ends_in_no_traceback() -> None:
    document = shop()
    document["clusters"][0] |= {"\udfff\ud800": 1, "load_metric": {"dimensions": 5}}
    with pytest.raises(EnvironmentFileError, match=r"clusters\.orders: "):
        Environment.parse(document, "shop.yaml")


def test_a_cluster_has_the_defaults_of_all_unless_it_says_otherwise(tmp_path: Path) -> None:
    document = shop()
    orders, items = document["clusters"]
    document["defaults"] = {
        "subnets": {"eu-west-1a": "subnet-0c0d00000000000a1", "eu-west-1b": "subnet-0c0d00000000000b1"},
        "limits": {"max_hourly_cost_usd": 7.5, "minimum_lifetime_minutes": 30},
        "security_group_ids": orders.pop("security_group_ids"),
    }
    del orders["subnets"], orders["limits"]["max_hourly_cost_usd"], items["limits"]
    taken = load_environment("shop", written(document, tmp_path).parent, now=EARLY)
    first, second = taken.clusters
    assert first.security_group_ids == ("sg-0c0d0000000000001", "sg-0c0d0000000000002")
    assert second.security_group_ids == ("sg-0c0d0003",), "a list is not merged"
    assert list(second.subnets) == ["eu-west-1a", "eu-west-1b", "eu-west-1c"], "a mapping is"
    assert (first.limits.max_hourly_cost_usd, first.limits.minimum_lifetime_minutes) == (7.5, 60)
    assert (second.limits.max_hourly_cost_usd, second.limits.minimum_lifetime_minutes) == (7.5, 30)


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ({"image": "ami-0c0d0002"}, "defaults.image: is not a setting; did you mean image_id?"),
        ({"limits": {"minimum_lifetime_minutes": -1}}, "defaults.limits.minimum_lifetime_minutes: must be at least 0"),
        ([], "defaults: must be a mapping"),
    ],
)  # fmt: skip
def test_a_wrong_default_is_told_once_where_it_stands(tmp_path: Path, defaults: Any, said: str) -> None:
    document = {"defaults": defaults, **shop()}
    for cluster in document["clusters"]:
        del cluster["limits"]
    [line] = refused(written(document, tmp_path)).splitlines()
    assert said in line


def good_files() -> list[tuple[str, Path]]:
    return [
        (name, directory)
        for directory in (ENVIRONMENTS_DIRECTORY, GIVEN)
        for name in available_environments(directory)
    ]


@pytest.mark.parametrize(("name", "directory"), good_files(), ids=lambda value: getattr(value, "name", value))
def test_good_file_is_taken_and_deployed(name: str, directory: Path) -> None:
    environment = load_environment(name, directory, now=EARLY)
    assert environment.environment == name
    for cluster in environment.clusters:
        deployed = deployed_document(cluster, environment=name, region=environment.region, endpoint={})
        assert ClusterSettings.model_validate(deployed).max_replicas <= MOST_REPLICAS


@pytest.mark.parametrize("name", available_environments())
@pytest.mark.parametrize("years", [0, 30])
def test_given_environments_need_no_second_look_whenever_somebody_clones_them(name: str, years: int) -> None:
    lines: list[str] = []
    load_environment(name, warn=lines.append, now=EARLY.replace(year=EARLY.year + years))
    assert lines == []


def test_every_fault_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    document = changed(
        shop(),
        {
            "c.engine": "postgres",
            "c.max_replicas": 1,
            "c.subnets.us-east-1a": "subnet-0c0d00000000000d1",
            "d.read_endpoint.health_port": 3306,
            "d.name": "orders",
            "account": "1",
        },
    )
    lines = refused(written(document, tmp_path)).splitlines()
    assert [told(line)[2] for line in lines] == [
        "account",
        "clusters.0.engine",
        "clusters.0.max_replicas",
        "clusters.0.subnets.us-east-1a",
        "clusters.1.read_endpoint.health_port",
    ]


@pytest.mark.parametrize("digits", [7, 9, 16, 18])
def test_ids_have_as_many_digits_as_aws_gives_them(digits: int, tmp_path: Path) -> None:
    """8 or 17 (EC2 User Guide, resource ids): a digit that was lost in copying is seen at once."""
    document = changed(shop(), {"c.image_id": "ami-" + "0" * digits})
    [line] = refused(written(document, tmp_path)).splitlines()
    assert told(line)[2] == "clusters.orders.image_id"


def test_a_key_twice_and_a_wrong_setting_are_told_together(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    text = SHOP_TEXT.replace("mode: act", "mode: act\n    mode: observe", 1).replace(
        "max_replicas: 6", "max_replicas: 1"
    )
    path.write_text(text, encoding="utf-8")
    assert [told(line)[1:3] for line in refused(path).splitlines()] == [
        (13, "clusters.orders.mode"),
        (15, "clusters.orders.max_replicas"),
    ]


def test_what_comes_with_a_merge_is_told_where_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP_TEXT.replace("lag_seconds: 5", "lag_seconds: 0"), encoding="utf-8")
    faults = [told(line)[1:3] for line in refused(path).splitlines()]
    assert faults == [
        (43, "clusters.orders.gates.lag_seconds"),
        (43, "clusters.order-items.gates.lag_seconds"),
    ]


@pytest.mark.parametrize(
    ("start", "end", "zone", "expected"),
    [
        ("2026-11-27T08:00", "2026-11-27T23:00", "Europe/Berlin", ("2026-11-27T07:00", "2026-11-27T22:00")),
        ("2026-11-27T08:00-05:00", "2026-11-27T23:00Z", "UTC", ("2026-11-27T13:00", "2026-11-27T23:00")),
        # 02:30 happens twice on that night, and never on the other: the event is the longer one.
        (
            "2026-10-25T02:30",
            "2026-10-25T02:30:01",
            "Europe/Berlin",
            ("2026-10-25T00:30", "2026-10-25T01:30:01"),
        ),
        ("2026-03-29T02:30", "2026-03-29T02:45", "Europe/Berlin", ("2026-03-29T00:30", "2026-03-29T01:45")),
    ],
)
def test_the_calendar_is_deployed_in_utc(start: str, end: str, zone: str, expected: tuple[str, str]) -> None:
    event = {"from": start, "until": end, "reason": "sale", "min_replicas": 4}
    document = changed(shop(), {"c.time_zone": zone, "c.calendar": [event]})
    block = Environment.parse(document, "shop.yaml").clusters[0].model_dump(mode="json", exclude_none=True)
    (deployed,) = block["calendar"]
    assert set(deployed) == {"from", "until", "reason", "min_replicas"}
    for name, wanted in zip(("from", "until"), expected, strict=True):
        assert datetime.fromisoformat(deployed[name]) == datetime.fromisoformat(wanted).replace(tzinfo=UTC)
    (known,) = ClusterSettings.model_validate(
        {**block, "environment": "shop", "region": "eu-west-1"}
    ).calendar
    assert (known.min_replicas, known.reason, known.from_.utcoffset()) == (4, "sale", timedelta(0))


@pytest.mark.parametrize(("iops", "throughput"), [(100, 25), (4000, 1024), (64_000, 4000)])
def test_throughput_of_io2_follows_from_its_iops(iops: int, throughput: int) -> None:
    environment = Environment.parse(changed(shop(), {"c.volumes.1.iops": iops}), "shop.yaml")
    assert environment.clusters[0].volumes[1].throughput_mib_per_s == throughput


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"c.calendar.0.until": "2026-10-01T00:00", "c.calendar.0.from": "2026-09-30T00:00"},
         "clusters.orders.calendar.0.until: Black Friday ended 2026-09-30 22:00 UTC: remove it"),
        ({"c.calendar.0.until": "2029-11-28T00:00", "c.calendar.0.from": "2029-11-27T00:00"},
         "clusters.orders.calendar.0.from: Black Friday is over a year ahead, 2029-11-26: is the year right?"),
        ({"c.calendar.0.until": "2027-03-01T00:00"},
         "clusters.orders.calendar.0.until: Black Friday lasts 93 days: is the month right?"),
        ({"c.calendar.0.min_replicas": 2},
         "clusters.orders.calendar.0.min_replicas: Black Friday asks for no more than min_replicas (2) anyway"),
        ({"c.calendar.1.load": 60000},
         "clusters.orders.calendar.1.load: cup final takes 10 replicas and max_replicas is 6: raise it"),
        ({"c.max_replicas": 6, "c.min_replicas": 6},
         "clusters.orders.max_replicas: is min_replicas (6): no peak replica is ever built"),
        ({"c.forecast.schedule_minutes": 240},
         "clusters.orders.forecast.schedule_minutes: a rise is seen up to 240 minutes late: 5 to 15 is usual"),
        ({"region": "us-east-1", "c.subnets": {"us-east-1a": "subnet-0c0d00000000000a1"},
          "d.subnets": {"us-east-1a": "subnet-0c0d00000000000a1"}, "c.limits.max_hourly_cost_usd": 1.5},
         "clusters.orders.limits.max_hourly_cost_usd: 1.5 USD pays for 1 peak replicas at most (0.8568 each for "
         "r7g.4xlarge, volumes not counted), and min_replicas to max_replicas are 4: raise it, or lower max_replicas"),
        ({"c.limits.max_hourly_cost_usd": 0.5},
         "clusters.orders.limits.max_hourly_cost_usd: 0.5 USD is less than one r7g.4xlarge costs in us-east-1 (0.8568, "
         "without volumes); what it costs in eu-west-1 is not known here, and a plan above it is refused"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_deserves_a_second_look_is_told_and_taken(
    changes: dict[str, Any], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = changed(shop(), changes)
    if "c.min_replicas" in changes:
        changed(document, {"c.calendar": []})
    written(document, tmp_path)
    assert load_environment("shop", tmp_path, now=EARLY).environment == "shop"
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {tmp_path.name}/shop.yaml:")
    assert line.split(": ", 2)[2] == expected


def test_missing_environment_names_the_known_ones() -> None:
    with pytest.raises(
        EnvironmentFileError, match=r"environments/staging.yaml: does not exist; .* dev, local, prod$"
    ):
        load_environment("staging")
    with pytest.raises(EnvironmentFileError, match=r"did you mean local\?"):
        load_environment("locale")


@pytest.mark.parametrize("name", ["../prod", "/etc/passwd", "", "prod.yaml", "a\x00b", "x" * 5000])
def test_name_that_is_no_environment_opens_nothing(name: str) -> None:
    with pytest.raises(EnvironmentFileError, match="does not exist; known environments: dev, local, prod"):
        load_environment(name)


def test_file_of_another_environments_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.yaml").write_text(SHOP_TEXT, encoding="utf-8")
    assert refused(tmp_path / "dev.yaml") == (
        f"{tmp_path.name}/dev.yaml:2: environment: must be dev, the name of the file, got shop"
    )


def test_directory_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.yaml").mkdir()
    assert refused(tmp_path / "dev.yaml") == f"{tmp_path.name}/dev.yaml: cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("region", "partition"),
    [("eu-west-1", "aws"), ("us-gov-west-1", "aws-us-gov"), ("us-gov-east-1", "aws-us-gov")],
)
def test_partition_follows_the_region(region: str, partition: str) -> None:
    document = changed(shop(), in_another_region(region))
    assert Environment.parse(document, "x").partition == partition


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("cn-north-1", "aws-cn"),
        ("cn-middle-7", "aws-cn"),
        ("us-isob-east-1", "aws-iso-b"),
        ("us-isof-middle-7", "aws-iso-f"),
        ("eusc-de-east-1", "aws-eusc"),
    ],
)
def test_a_region_where_services_have_other_names_is_refused(region: str, partition: str) -> None:
    """kms:ViaService and iam:PassedToService end in amazonaws.com.cn in China, say."""
    document = changed(shop(), in_another_region(region))
    with pytest.raises(
        EnvironmentFileError, match=f"region: must be a region of the partition .* of {partition}:"
    ):
        Environment.parse(document, "x")


def test_known_names_are_those_of_the_installed_botocore() -> None:
    # When this fails after an update of botocore: make aws-names
    assert aws_names.PATH.read_text(encoding="utf-8") == aws_names.written()


def test_synth_needs_no_botocore_to_check_a_file() -> None:
    program = (
        "import sys; sys.modules['botocore'] = None\n"
        "from environments.schema import load_environment; print(load_environment('dev').environment)"
    )
    root = ENVIRONMENTS_DIRECTORY.parent
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert answer.stdout == "dev\n"


NOT_YET = {one.__name__ for one in errors.NotYet.__subclasses__()}


def test_what_may_be_waited_for_is_waited_for() -> None:
    for workflow, step in (
        ("remove_replica", "DrainReplica"),
        ("remove_replica", "ConfirmIdle"),
        ("add_replica", "RampTraffic"),
    ):
        [state] = [one for one in structure.states(MACHINES[workflow]) if one.name == step]
        waits = [rule for rule in state.body["Retry"] if NOT_YET & set(rule["ErrorEquals"])]
        assert min(_retried_seconds(rule) for rule in waits) > LONGEST_WAIT_SECONDS, step


def _retried_seconds(rule: dict[str, Any]) -> float:
    most = rule.get("MaxDelaySeconds", float("inf"))
    waited, wait = 0.0, min(most, rule["IntervalSeconds"])
    for _ in range(rule["MaxAttempts"]):
        waited, wait = waited + wait, min(most, wait * rule["BackoffRate"])
    return waited


def test_search_for_the_knee_leaves_the_storage_proof_half_of_its_time() -> None:
    document = yaml.safe_load(
        (ENVIRONMENTS_DIRECTORY.parent / "ssm_documents" / "verify_storage.yaml").read_text()
    )
    [longest] = [
        rule.le for rule in GateSettings.model_fields["knee_seconds"].metadata if isinstance(rule, Le)
    ]
    assert longest * 2 <= int(document["mainSteps"][0]["inputs"]["timeoutSeconds"])
