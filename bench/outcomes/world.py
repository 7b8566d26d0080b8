"""One cluster in a world of its own: the deployed workflows and the product's code, on AWS as `laws` has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.domain.planning.learning.elsewhere import ClusterFigures
from peaker.ports import Ports
from peaker.usecases.forecast.told_figures import told_figures
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.plan.lead_time_inputs import snapshot_history

from bench.faults.workflows.functions import Interference, Invocation
from bench.faults.world.account import Record, attachment_at
from bench.faults.world.table import MemoryTable
from bench.faults.world.world import ENVIRONMENT, Traced, World
from bench.outcomes import laws
from bench.outcomes.aws import LawfulBlocks, LawfulCompute, LawfulEndpoint, LawfulStorage
from bench.outcomes.hosts import LawfulCommands
from bench.outcomes.truth import Truth
from peaker_contract.cluster import ClusterSettings
from peaker_contract.tags import LOAD_TAG, VOLUME_TAG


class LawfulWorld(World):
    """A world of one cluster; what its runs took teaches the next plan by the product's own memory."""

    def __init__(self, seed: int, truth: Truth) -> None:
        self.truth = truth
        super().__init__(seed, truth.settings)
        self._last_call: dict[str, float] = {}
        self.functions.interfere = self._cold_start

    def _ports(self, clusters: tuple[ClusterSettings, ...]) -> Ports:
        ports = super()._ports(clusters)
        time, dice, account = self.time, self.random, self.account
        zones = {subnet: zone for one in clusters for zone, subnet in one.subnets.items()}
        self.storage = LawfulStorage(account, time, dice, ENVIRONMENT, self.truth)
        self.compute = LawfulCompute(account, time, dice, zones, ENVIRONMENT, self.truth)
        self.endpoint = LawfulEndpoint(account, time, dice)
        self.commands = LawfulCommands(account, time, dice, self.truth)
        index: Any = _IndexOfRuns(MemoryTable(account, time))
        real: dict[str, Any] = {
            "storage": self.storage,
            "compute": self.compute,
            "endpoint": self.endpoint,
            "commands": self.commands,
            "snapshot_blocks": LawfulBlocks(account, self.truth),
            "past_runs": DynamoForecastRecords(index, "ledger", ports.ledger),
        }
        traced: dict[str, Any] = {name: Traced(name, one, self) for name, one in real.items()}
        return replace(ports, **traced)

    def _data_volumes(self, instance: Record, cluster: ClusterSettings) -> None:
        super()._data_volumes(instance, cluster)
        for volume in self.account.volumes.values():
            name = volume["tags"].get(VOLUME_TAG)
            if name in self.truth.size_gib:
                volume["size"] = self.truth.size_gib[name]

    def knows(self, told: Mapping[str, ClusterFigures]) -> None:
        """What scheduled checks of the account's other clusters have told."""
        rows = self.account.table.setdefault("figures", {})
        for name, one in told.items():
            rows[name] = {"pk": "figures", "sk": name, "document": {"S": one.model_dump_json()}}

    def told(self) -> ClusterFigures:
        """What this cluster's next scheduled check tells."""
        settings = self.truth.settings
        fleet = gather_fleet(self.ports, settings, with_volumes=True)
        history = snapshot_history(self.ports, settings, fleet)
        past = self.ports.past_runs.past_steps(settings.name)
        return told_figures(settings, fleet, history, past, self.time.now().date())

    def was_backed_up(self) -> None:
        """Somebody snapshots the data volumes of the base replica; long before the run that follows."""
        now, names = self.time.seconds, self.truth.used
        base = next(one for one in self.account.instances.values() if LOAD_TAG in one["tags"])
        volumes = [
            one["id"]
            for one in self.account.volumes.values()
            if one["tags"].get(VOLUME_TAG) in names
            and (attachment_at(one, now) or {}).get("instance") == base["id"]
        ]
        self.storage.create_snapshots(base["id"], volumes, {})

    def _cold_start(self, invocation: Invocation) -> Interference | None:
        """A function that nobody called for a while begins later."""
        last = self._last_call.get(invocation.function)
        self._last_call[invocation.function] = self.time.seconds
        if last is None or self.time.seconds - last > laws.WARM_SECONDS:
            invocation.elapsed += laws.COLD_START.draw(self.random)
        return None


class _IndexOfRuns:
    """DynamoDB as the memory of past runs asks it: the newest rows of a cluster's index, and what clusters told."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table

    def query(
        self, *, ExpressionAttributeValues: Mapping[str, Mapping[str, str]], Limit: int, **_: Any
    ) -> dict[str, Any]:
        given = {name: one["S"] for name, one in ExpressionAttributeValues.items()}
        found = self._table.query(given[":pk"], given.get(":run", ""))
        if ":run" not in given:
            return {"Items": [{"sk": {"S": one["sk"]}, "document": one["document"]} for one in found]}
        return {"Items": [{"sk": {"S": one["sk"]}} for one in reversed(found[-Limit:])]}
