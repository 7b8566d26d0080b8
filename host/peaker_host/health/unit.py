"""The systemd unit that keeps the health responder running, and how long the SSM agent keeps its commands' folders.

The agent keeps them for 14 days by default (amazon-ssm-agent: 336 hours, at least 8). check_replicas sends a command a
minute, so that would be 20,000 folders on the root volume; 8 hours are 480.
"""

from __future__ import annotations

import json
import os
from typing import Optional

from peaker_host.machine.files import read_json, read_text, write_atomically
from peaker_host.machine.settings import Machine, Settings, package_command

UNIT = "peaker-health.service"
CURRENT_PACKAGE = "/opt/peaker/current/peaker_host.pyz"

# What makes it end at once, such as a wrong host.json or a port that another has, a person mends later than five tries
# take, after which systemd gives up for good. StartLimitInterval is that setting's name before systemd 230.
_RESTART = """Restart=always
RestartSec=2
StartLimitInterval=0
"""
# The process that looks needs the files and sockets of others, and may be told a port below 1024; the one that answers
# becomes nobody. No setting here gives them a mount namespace of their own: volumes come and go beneath them.
_LIMITS = """NoNewPrivileges=yes
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_NET_BIND_SERVICE CAP_SETUID CAP_SETGID
RestrictSUIDSGID=yes
LimitNOFILE=1024
TasksMax=64
MemoryMax=256M
"""


def install_health_service(machine: Machine) -> None:
    """Write the unit and (re)start it. Doing it again changes nothing but the responder's start time."""
    path = os.path.join(machine.unit_dir, UNIT)
    text = unit_text(machine)
    unchanged = read_text(path) == text
    if not unchanged:
        write_atomically(path, text)
        machine.processes.run(["systemctl", "daemon-reload"])
        machine.processes.run(["systemctl", "enable", UNIT], check=False)
    # What systemd has given up it does not start before it is told so.
    machine.processes.run(["systemctl", "reset-failed", UNIT], check=False)
    machine.processes.run(["systemctl", "start" if unchanged else "restart", UNIT])


def unit_text(settings: Settings) -> str:
    """The unit file. It follows the `current` link, so that a newer package is used after a restart. Its Python is the
    one that this command runs on: another one of the host may be too old."""
    interpreter, *package = package_command()
    if os.path.exists(CURRENT_PACKAGE):
        package = [CURRENT_PACKAGE]
    return (
        "[Unit]\n"
        "Description=Peaker health responder\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "StartLimitIntervalSec=0\n\n"
        "[Service]\n"
        f"ExecStart={' '.join([interpreter, *package])} health --port {settings.health_port}\n"
        f"{_RESTART}"
        f"{_LIMITS}\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


RETENTION_HOURS = 8
FIELD = "RunCommandLogsRetentionDurationHours"
_SECTION = "Ssm"


def kept_hours(settings: Settings) -> Optional[float]:
    """Returns the hours of the agent's configuration; None where the agent's default holds. Raises UnreadableFile."""
    section = (read_json(settings.agent_config) or {}).get(_SECTION)
    hours = section.get(FIELD) if isinstance(section, dict) else None
    if isinstance(hours, bool) or not isinstance(hours, (int, float)) or hours <= 0:
        return None
    return float(hours)


def is_short(hours: Optional[float]) -> bool:
    """Tells whether folders are kept for RETENTION_HOURS or less."""
    return hours is not None and hours <= RETENTION_HOURS


def shorten_retention(settings: Settings) -> None:
    """Writes RETENTION_HOURS into the agent's configuration unless it keeps them for less; the rest of that file stays.

    It counts from the agent's next start. Raises UnreadableFile.
    """
    if is_short(kept_hours(settings)):
        return
    content = read_json(settings.agent_config) or {}
    section = content.get(_SECTION)
    changed = {**(section if isinstance(section, dict) else {}), FIELD: RETENTION_HOURS}
    write_atomically(settings.agent_config, json.dumps({**content, _SECTION: changed}, indent=4) + "\n")
