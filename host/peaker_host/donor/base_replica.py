"""A base replica that others built: look whether it can be a donor, then put there what Peaker needs.

Nothing of the server's own is changed, restarted or interrupted. When one look is refused, nothing is made at all. The
account of the health responder comes by replication from the source, where its owner makes it; only on the owner's word
is it made on this server alone, outside the binary log.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Tuple

from peaker_host.database.mysql_client import admin_client
from peaker_host.donor.administrator import PREPARE, Administrator, refuse_open_file
from peaker_host.donor.base_checks import (
    Filesystem,
    ServerFacts,
    look_at_server,
    look_at_unit,
    server_numbers,
)
from peaker_host.donor.base_step import DONE, THERE, WARNING, Refusal, Step, as_result, looked, refused
from peaker_host.health.account import (
    OWNERS_ACCOUNT,
    ensure_health_account,
    login_problem,
    statements_for_the_source,
)
from peaker_host.health.agent_retention import FIELD, RETENTION_HOURS, is_short, kept_hours, shorten_retention
from peaker_host.health.policy import store_policy
from peaker_host.health.process import listening_addresses
from peaker_host.health.serving_floor import read_health
from peaker_host.health.unit import UNIT, install_health_service, unit_text
from peaker_host.machine.command_gate import Sent, alone, forget_tokens
from peaker_host.machine.errors import BaseNotPrepared, HostError
from peaker_host.machine.files import read_json, read_text
from peaker_host.machine.host_json import to_decide, write_decided
from peaker_host.machine.image_server import UNITS
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings

_RETENTION = "agent retention"
_ANSWER_PAUSE_SECONDS, _ANSWER_TIMEOUT_SECONDS = 0.5, 3.0


@dataclass(frozen=True)
class BaseRequest:
    """A request holds the cluster's settings and the permissions of the server's owner.

    `admin_defaults_file`: an option file of this host with the administrator's login; empty for what is there already,
    or else root by the socket. `health`: what the responder goes by. `check_only`: nothing is to be made.
    """

    engine: str
    health_port: int
    filesystems: Tuple[Filesystem, ...]
    least_binlog_seconds: int
    health: Dict[str, Any]
    admin_defaults_file: str = ""
    account_here: bool = False
    check_only: bool = False


def prepare_base(
    settings: Settings,
    settings_path: str,
    processes: Processes,
    request: BaseRequest,
    wait_seconds: float,
    say: Callable[[str], None],
) -> Dict[str, Any]:
    """Look, then make what is missing; `wait_seconds` is how long the responder may take to answer good.

    Fencing tokens that the host has seen are forgotten: a new installation's ledger counts from 1.

    With `check_only` nothing is made: what is missing is refused, and the result has the server's own numbers.
    Returns the steps and whether anything was changed. Raises BaseNotPrepared with the steps.
    """
    settings = replace(settings, engine=request.engine, health_port=request.health_port)
    if request.check_only:
        return _check(settings, settings_path, processes, request, wait_seconds)
    with alone(settings, Sent("prepare_base", "", None, None)):
        forget_tokens(settings)
        return _prepare(settings, settings_path, processes, request, wait_seconds, say)


def _prepare(
    settings: Settings,
    settings_path: str,
    processes: Processes,
    request: BaseRequest,
    wait_seconds: float,
    say: Callable[[str], None],
) -> Dict[str, Any]:
    with Administrator(settings, processes, request.admin_defaults_file) as administrator:
        settings, facts, steps = _look(administrator, settings, settings_path, processes, request)
        if facts is None or refused(steps):
            raise _not_prepared(steps)
        *steps, account = steps
        steps.append(_write_settings(settings, settings_path))
        steps[0] = administrator.keep(facts)
    say("the server can be a donor")
    steps += _make(settings, processes, request, account, wait_seconds)
    if refused(steps):
        raise _not_prepared(steps)
    return as_result(steps)


def _look(
    administrator: Administrator,
    settings: Settings,
    settings_path: str,
    processes: Processes,
    request: BaseRequest,
) -> Tuple[Settings, Optional[ServerFacts], List[Step]]:
    """The steps of all looks, the administrator's first and the account's last; only the first without a login."""
    facts, steps = administrator.facts, [administrator.step]
    if facts is None:
        return settings, None, steps
    settings = _with_facts(settings, settings_path, processes, facts)
    client, least = administrator.client, request.least_binlog_seconds
    steps += look_at_server(settings, processes, client, facts, request.filesystems, least)
    steps.append(look_at_unit(settings, processes))
    steps.append(looked("health account", lambda: _account(settings, processes, request.account_here)))
    return settings, facts, steps


def _check(
    settings: Settings, settings_path: str, processes: Processes, request: BaseRequest, wait_seconds: float
) -> Dict[str, Any]:
    """Every look of a preparation, and whether what it would make is there. Nothing is written."""
    with Administrator(settings, processes, request.admin_defaults_file) as administrator:
        settings, facts, steps = _look(administrator, settings, settings_path, processes, request)
        if facts is None:
            raise _not_prepared(steps)
        steps[0] = looked("administrator", lambda: administrator.look_kept(facts))
        numbers = server_numbers(administrator.client, request.engine)
    steps.append(looked("host settings", lambda: _look_at_settings(settings, settings_path)))
    steps.append(looked("health policy", lambda: _look_at_policy(settings, request.health)))
    steps.append(looked(_RETENTION, lambda: _look_at_retention(settings)))
    steps.append(looked("health responder", lambda: _look_at_responder(settings, processes)))
    if not refused(steps[-1:]):
        steps.append(looked("health answer", lambda: _await_good(settings, wait_seconds)))
    if refused(steps):
        raise _not_prepared(steps, numbers)
    return {**as_result(steps), **numbers}


def _not_prepared(steps: List[Step], numbers: Optional[Dict[str, Any]] = None) -> BaseNotPrepared:
    wrong = refused(steps)
    named = "; ".join(f"{step.name}: {step.detail}" for step in wrong)
    return BaseNotPrepared(f"{len(wrong)} refused: {named}", {**as_result(steps), **(numbers or {})})


def _with_facts(settings: Settings, path: str, processes: Processes, facts: ServerFacts) -> Settings:
    """The settings with what the server and systemd say, where nobody wrote it into host.json."""
    written = read_json(path) or {}
    if "datadir" not in written:
        settings = replace(settings, datadir=facts.datadir)
    if "mysql_service" in written:
        return settings
    units = dict.fromkeys((settings.mysql_service, *UNITS))
    active = [
        unit for unit in units if not processes.run(["systemctl", "is-active", unit], check=False).exit_code
    ]
    return replace(settings, mysql_service=active[0]) if active else settings


def _write_settings(settings: Settings, path: str) -> Step:
    """host.json keeps what others wrote; what differs from the defaults comes to it, and what the cluster's settings
    decide wins."""
    decided = to_decide(settings, path)
    if not decided:
        said = f"{path} says what is so" if read_json(path) else "the defaults are so"
        return Step("host settings", THERE, said)
    write_decided(path, decided)
    return Step("host settings", DONE, f"{path}: {_named(decided)}")


def _named(values: Dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _look_at_settings(settings: Settings, path: str) -> str:
    if decided := to_decide(settings, path):
        raise Refusal(f"{path} does not say {_named(decided)}", PREPARE)
    return f"{path} says what is so"


def _look_at_policy(settings: Settings, health: Dict[str, Any]) -> "str | Step":
    path = settings.health_policy_file
    stored = read_json(path) or {}
    wrong = {name: value for name, value in health.items() if stored.get(name) != value}
    return Step("health policy", WARNING, f"{path} does not say {_named(wrong)}", PREPARE) if wrong else path


def _look_at_retention(settings: Settings) -> "str | Step":
    hours = kept_hours(settings)
    if is_short(hours):
        return f"{settings.agent_config}: {FIELD} {hours:g}"
    kept = "14 days (the agent's default)" if hours is None else f"{hours:g} hours"
    return Step(_RETENTION, WARNING, f"the folder of each command is kept for {kept}", PREPARE)


def _shorten_retention(settings: Settings) -> "str | Step":
    found = _look_at_retention(settings)
    if isinstance(found, str):
        return found
    shorten_retention(settings)
    from_then = "it counts from the agent's next start: systemctl restart amazon-ssm-agent"
    return Step(_RETENTION, DONE, f"{settings.agent_config}: {FIELD} {RETENTION_HOURS}; {from_then}")


def _account(settings: Settings, processes: Processes, account_here: bool) -> "str | Step":
    """Checks the responder's login, or makes its account here; else tells the owner's remedy."""
    path = settings.health_defaults_file
    there = os.path.exists(path)
    problem = login_problem(settings, processes) if there else "the file is not there"
    if problem is None:
        refuse_open_file(path)
        return f"{path} logs in"
    if account_here:
        return Step("health account", DONE, "")
    statements = "".join(f"{statement};\n" for statement in statements_for_the_source(settings.engine))
    raise Refusal(
        f"{path}: {problem}",
        f"make it on the source, with a password of yours; every replica gets it from there:\n{statements}"
        f"Put its login on this host into {path}, root's alone (mode 600):\n"
        f"[client]\nuser={OWNERS_ACCOUNT}\npassword=<password>\n"
        "Then run this again. Or let an account be made on this replica alone, outside the binary log, with"
        " --create-account-here.",
    )


def _make(
    settings: Settings, processes: Processes, request: BaseRequest, account: Step, wait_seconds: float
) -> List[Step]:
    steps = [account if account.state == THERE else _make_account(settings, processes)]
    if refused(steps):
        return steps
    steps.append(_store_policy(settings, request.health))
    steps.append(looked(_RETENTION, lambda: _shorten_retention(settings)))
    steps.append(looked("health responder", lambda: _start_responder(settings, processes)))
    if refused(steps):
        return steps
    return [*steps, looked("health answer", lambda: _await_good(settings, wait_seconds))]


def _make_account(settings: Settings, processes: Processes) -> Step:
    def make() -> Step:
        ensure_health_account(settings, processes, admin_client(settings, processes))
        detail = f"peaker_health_local made here alone, not logged; {settings.health_defaults_file} written"
        return Step("health account", DONE, detail)

    return looked("health account", make)


def _store_policy(settings: Settings, health: Dict[str, Any]) -> Step:
    changed = store_policy(settings, health)
    return Step("health policy", DONE if changed else THERE, settings.health_policy_file)


def _start_responder(settings: Settings, processes: Processes) -> "str | Step":
    """Starts the responder, or leaves it alone where it runs as it should."""
    if _responder_runs(settings, processes):
        return f"{UNIT} runs on port {settings.health_port}"
    install_health_service(settings, processes)
    processes.run(["systemctl", "enable", UNIT], check=False)
    return Step("health responder", DONE, f"{UNIT} started on port {settings.health_port}")


def _look_at_responder(settings: Settings, processes: Processes) -> str:
    if _responder_runs(settings, processes):
        return f"{UNIT} runs on port {settings.health_port}"
    raise Refusal(f"{UNIT} does not run as this release has it on port {settings.health_port}", PREPARE)


def _responder_runs(settings: Settings, processes: Processes) -> bool:
    same = read_text(os.path.join(settings.unit_dir, UNIT)) == unit_text(settings)
    runs = [
        processes.run(["systemctl", verb, UNIT], check=False).exit_code == 0
        for verb in ("is-enabled", "is-active")
    ]
    return same and all(runs)


def _await_good(settings: Settings, wait_seconds: float) -> "str | Step":
    """Waits for a good answer at the address that the load balancer and the peers ask."""
    address = listening_addresses(settings)[-1].replace("0.0.0.0", "127.0.0.1")
    where = f"{address}:{settings.health_port}"
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            status, body = read_health(address, settings.health_port, _ANSWER_TIMEOUT_SECONDS)
            said = f"{status}: {body.get('why', '')}"
        except (OSError, ValueError, HostError) as error:
            status, said = 0, f"no answer: {error}"
        if status == 200:
            return f"{where} answers {said}"
        if status == 404:
            return Step("health answer", WARNING, f"{where} answers {said}", "document set_maintenance, off")
        if time.monotonic() > deadline:
            raise Refusal(
                f"{where} answers {said}",
                f"mend what it names; journalctl -u {UNIT} has the responder's own words",
            )
        time.sleep(_ANSWER_PAUSE_SECONDS)
