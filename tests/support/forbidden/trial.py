"""All calls of all roles, and how they end."""

from __future__ import annotations

from dataclasses import dataclass

from cloud_rig.resources import ResourceCloud
from tests.support.forbidden import commands_and_data, control, hosts_and_storage
from tests.support.forbidden.cell import Cell
from tests.support.forbidden.roles import Role, tried
from tests.support.forbidden.setting import Setting

ROOMS = (hosts_and_storage, commands_and_data, control)


@dataclass
class Trial:
    """A deployed environment with everything that the calls are tried on, and who tries them.

    `bounded` may do everything that the boundary of the environment's roles lets through.
    """

    aws: ResourceCloud
    setting: Setting
    roles: list[Role]
    bounded: Role

    def named(self, name: str) -> list[Role]:
        """The role of this name, or all of a kind."""
        return [role for role in self.roles if name in (str(role), role.kind)]

    def cells(self, role: Role) -> list[Cell]:
        """What it must not be able to do; of the bounded role, what nobody must."""
        found = [cell for room in ROOMS for cell in room.cells(role, self.setting)]
        return [cell for cell in found if cell.bounded] if role == self.bounded else found

    def went_through(self, role: Role, cells: list[Cell]) -> list[str]:
        """What was not refused, each with what came of it."""
        found = []
        for cell in cells:
            client = self.aws.cloud.client_as(role.arn, "forbidden", role.service, cell.api)
            outcome = tried(lambda cell=cell, client=client: cell.call(client))
            if outcome != "refused":
                found.append(f"{role}: {cell.what}: {outcome}")
        return found
