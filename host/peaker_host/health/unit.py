"""The systemd unit that keeps the health responder running."""

from __future__ import annotations

import os

from peaker_host.machine.files import read_text, write_atomically
from peaker_host.machine.processes import Processes, package_command
from peaker_host.machine.settings import Settings

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


def install_health_service(settings: Settings, processes: Processes) -> None:
    """Write the unit and (re)start it. Doing it again changes nothing but the responder's start time."""
    path = os.path.join(settings.unit_dir, UNIT)
    text = unit_text(settings)
    unchanged = read_text(path) == text
    if not unchanged:
        write_atomically(path, text)
        processes.run(["systemctl", "daemon-reload"])
        processes.run(["systemctl", "enable", UNIT], check=False)
    # What systemd has given up it does not start before it is told so.
    processes.run(["systemctl", "reset-failed", UNIT], check=False)
    processes.run(["systemctl", "start" if unchanged else "restart", UNIT])


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
