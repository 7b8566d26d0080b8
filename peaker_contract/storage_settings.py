"""The data volumes of a replica, how they are warmed, and what they must show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    StrictInt,
    model_serializer,
    model_validator,
)

from peaker_contract.field_types import Fault, Number, Settings, refuse, text

# botocore, ec2:CreateVolume (gp3, io2); EBS user guide, general-purpose.md and provisioned-iops.md (the ratios).
GP3_IOPS = (3_000, 80_000)
IO2_IOPS = (100, 256_000)
GP3_MIB_PER_S = (125, 2_000)
GP3_MIB_PER_S_PER_IOPS = 0.25
IOPS_PER_GIB = {"gp3": 500, "io2": 1_000}
IO2_MIB_PER_S_PER_IOPS = 0.256
IO2_MOST_MIB_PER_S = 4_000

Layout = Literal[
    "single",
    "raid0",
    "raid1",
    "raid5",
    "raid10",
    "lvm_linear",
    "lvm_striped",
    "raid0_lvm",
    "raid1_lvm",
    "raid5_lvm",
    "raid10_lvm",
]
# mdadm(8): the fewest members of an array that is whole.
_FEWEST_MEMBERS = {"raid0": 2, "raid1": 2, "raid5": 3, "raid10": 2, "lvm_striped": 2}
_FILESYSTEMS_THAT_CANNOT_BE = {
    "jfs": "nothing says which of its blocks are in use, and current kernels of Amazon Linux and RHEL are without it",
    "reiserfs": "Linux 6.13 removed it, and nothing says which of its blocks are in use",
    "ext3": "it has no extents, by which files are found on the volume",
    "btrfs": "it manages its devices itself, and nothing here reads its maps",
    "zfs": "it manages its devices itself, and nothing here reads its maps",
}


def fewest_members(layout: str) -> int:
    """Returns the fewest volumes of a filesystem of this layout."""
    return _FEWEST_MEMBERS.get(layout.removesuffix("_lvm"), 1)


def _known_filesystem(given: object) -> object:
    why = _FILESYSTEMS_THAT_CANNOT_BE.get(given) if isinstance(given, str) else None
    if why is not None:
        raise ValueError(f"must be xfs or ext4: {why}")
    return given


# A volume that is mounted over one of these hides what the machine runs on; below them it hides nothing of use.
_TAKEN_WHOLE = (
    "/home",
    "/lost+found",
    "/media",
    "/mnt",
    "/opt",
    "/srv",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/local",
    "/var/log",
    "/var/mail",
    "/var/opt",
    "/var/spool",
)
# In these a mount point is wrong at any depth.
_TAKEN_WITH_ALL_BELOW = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt/peaker",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/tmp",
    "/usr",
    "/var/lib/amazon",
    "/var/lib/apt",
    "/var/lib/cloud",
    "/var/lib/dbus",
    "/var/lib/dpkg",
    "/var/lib/peaker",
    "/var/lib/rpm",
    "/var/lib/systemd",
    "/var/lock",
    "/var/run",
    "/var/tmp",
)
_MOUNTS_BELOW_THAT_ARE_FINE = "/usr/local"


def system_directory_of(mount_point: str) -> str | None:
    """The directory of the system that a mount there would hide or end up in; None when there is none."""
    if mount_point in _TAKEN_WHOLE:
        return mount_point
    if lies_in(mount_point, _MOUNTS_BELOW_THAT_ARE_FINE):
        return None
    return next((one for one in _TAKEN_WITH_ALL_BELOW if lies_in(mount_point, one)), None)


def lies_in(path: str, directory: str) -> bool:
    """Tells whether the path lies in the directory, or is it."""
    return path == directory or path.startswith(f"{directory}/")


def io2_mib_per_s(iops: int) -> int:
    """Returns the throughput of an io2 volume of so many IOPS; it follows from them and cannot be set."""
    return min(IO2_MOST_MIB_PER_S, int(iops * IO2_MIB_PER_S_PER_IOPS))


def _gp3_iops(valid: dict[str, Any]) -> Any:
    """Returns what every gp3 volume has; the model reports missing IOPS of io2."""
    return GP3_IOPS[0] if valid.get("volume_type") == "gp3" else None


def _throughput_that_follows(valid: dict[str, Any]) -> Any:
    """Returns what every gp3 volume has, and for io2 what its IOPS give."""
    if valid.get("volume_type") == "io2":
        return io2_mib_per_s(valid["iops"]) if valid.get("iops") is not None else None
    return GP3_MIB_PER_S[0]


class VolumeSettings(Settings):
    """A data volume; the order in the file is the order of attachment."""

    name: Annotated[
        str,
        text(
            r"^[a-z][a-z0-9-]{0,15}$",
            "1 to 16 small letters, digits and hyphens that start with a letter, such as data",
        ),
    ] = Field(
        description="What the volume is for. `data` holds the datadir and must be there.", examples=["data"]
    )
    device: Annotated[str, text(r"^/dev/sd[f-p]$", "a device name from /dev/sdf to /dev/sdp")] = Field(
        description="Device name that it is attached under (EC2 advises /dev/sdf to /dev/sdp for data).",
        examples=["/dev/sdf"],
    )
    mount_point: Annotated[
        str,
        text(
            r"^(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$",
            "an absolute path without .., // or a / at its end, such as /var/lib/mysql",
            200,
        ),
    ] = Field(
        description="Where it is mounted. Not a directory of the system, and not inside another volume's.",
        examples=["/var/lib/mysql"],
    )
    filesystem: Annotated[Literal["xfs", "ext4"], BeforeValidator(_known_filesystem)] = Field(
        default="xfs", description="Filesystem that the snapshots hold."
    )
    layout: Layout = Field(
        default="single",
        description="What the filesystem stands on. `single`: this volume. Otherwise all volumes with this mount point "
        "are one set: an md array (`raid0`, `raid1`, `raid5`, `raid10`), a logical volume of LVM (`lvm_linear`, "
        "`lvm_striped`), or one over arrays (`raid0_lvm`, ...). Chunks, order and ids are read from the donor; a donor "
        "of another layout is refused before its snapshots.",
        examples=["raid0"],
    )
    volume_type: Literal["gp3", "io2"] = Field(
        default="gp3", description="EBS volume type.", examples=["io2"]
    )
    iops: StrictInt = Field(
        default_factory=_gp3_iops,
        ge=IO2_IOPS[0],
        le=IO2_IOPS[1],
        description="Provisioned IOPS. gp3: 3000 to 80000, without it 3000. io2: required, 100 to 256000.",
        examples=[3000],
    )
    throughput_mib_per_s: StrictInt = Field(
        default_factory=_throughput_that_follows,
        ge=GP3_MIB_PER_S[0],
        le=GP3_MIB_PER_S[1],
        description=(
            "Provisioned throughput. gp3: 125 to 2000, at most 0.25 per IOPS, without it 125. Left out for io2, whose "
            "throughput follows from its IOPS (0.256 each, 4000 at most)."
        ),
        examples=[125],
    )

    @model_validator(mode="after")
    def _is_one_that_ebs_makes(self) -> Self:
        refuse(self._mount_faults())
        refuse(self._gp3_faults() if self.volume_type == "gp3" else self._io2_faults())
        return self

    @model_serializer(mode="wrap")
    def _without_what_follows(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Writes only the fields that may be given."""
        written: dict[str, Any] = write(self)
        if self.volume_type == "io2":
            written.pop("throughput_mib_per_s", None)
        return written

    def _mount_faults(self) -> Iterator[Fault]:
        taken = system_directory_of(self.mount_point)
        if taken is not None:
            yield Fault(
                ("mount_point",),
                f"must not be {'' if taken == self.mount_point else 'in '}{taken}, which the system needs; take a "
                f"directory of its own such as /var/lib/mysql; got {self.mount_point!r}",
            )

    def _gp3_faults(self) -> Iterator[Fault]:
        least, most = GP3_IOPS
        if not least <= self.iops <= most:
            yield Fault(("iops",), f"must be {least} to {most} for gp3, got {self.iops}")
            return
        high = GP3_MIB_PER_S[1]
        carried = min(high, int(self.iops * GP3_MIB_PER_S_PER_IOPS))
        if self.throughput_mib_per_s > carried:
            yield Fault(
                ("throughput_mib_per_s",),
                f"must be at most {carried} for gp3 with {self.iops} IOPS (0.25 MiB/s each, {high} at most), "
                f"got {self.throughput_mib_per_s}",
            )

    def _io2_faults(self) -> Iterator[Fault]:
        given: int | None = self.iops
        if given is None:
            yield Fault(("iops",), f"is required for io2: add it, {IO2_IOPS[0]} to {IO2_IOPS[1]}")
            return
        if "throughput_mib_per_s" in self.model_fields_set:
            yield Fault(
                ("throughput_mib_per_s",),
                f"is no setting of io2, whose throughput follows from its IOPS ({io2_mib_per_s(self.iops)} MiB/s with "
                f"{self.iops}): remove it, or take gp3",
            )


# Before a replica goes on, all that is used must be warm, or the hot set.
ServeWhen = Literal["all", "hot"]


class PrewarmSettings(Settings):
    """The prewarm settings say when a replica may serve: once all used blocks are warm, or once the hot ones are."""

    serve_when: ServeWhen = Field(
        default="all",
        description="`all`: once every used block is warm. `hot`: once the donor's buffer pool pages are.",
        examples=["hot"],
    )
    background_rate_mib_per_s: StrictInt = Field(
        default=32,
        ge=1,
        le=4_000,
        description="With `hot`: how fast the rest is read beside the database, per volume.",
    )


class GateSettings(Settings):
    """The gates are the limits that a new replica must keep before it is registered."""

    lag_seconds: Number = Field(
        default=5,
        ge=1,
        le=3_600,
        description="Highest replication lag; also where the health responder turns bad. While catching up whole "
        "seconds count, rounded down.",
    )
    storage_await_ratio: Number = Field(
        default=1.5,
        ge=1.001,
        le=100,
        multiple_of=0.001,
        description="How many times as long the first read of a block may take as the second.",
    )
    knee_seconds: StrictInt = Field(
        default=0,
        ge=0,
        le=1_800,
        description="Time to search for the volumes' knee, all together; it delays the replica by as much, and half of "
        "the storage proof's time limit of 3600 is the most. 0 leaves it out.",
        examples=[60],
    )
