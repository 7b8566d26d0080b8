"""A base replica that others built: look whether it can be a donor, then put there what Peaker needs.

Nothing of the server's own is changed, restarted or interrupted. When one look is refused, nothing is made at all. The
account of the health responder comes by replication from the source, where its owner makes it; only on the owner's word
is it made on this server alone, outside the binary log.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Tuple

from peaker_host.database.mysql_client import MysqlClient, admin_client
from peaker_host.donor.base_checks import (
    DONE,
    THERE,
    Filesystem,
    Refusal,
    ServerFacts,
    Step,
    Warned,
    as_result,
    look_at_server,
    look_at_unit,
    looked,
    read_facts,
    refused,
    server_numbers,
)
from peaker_host.health.policy import read_health, store_policy
from peaker_host.health.server import listening_addresses
from peaker_host.health.unit import (
    FIELD,
    OWNERS_ACCOUNT,
    RETENTION_HOURS,
    UNIT,
    ensure_health_account,
    install_health_service,
    is_short,
    kept_hours,
    login_problem,
    shorten_retention,
    statements_for_the_source,
    unit_text,
)
from peaker_host.machine.command import SentCommand, alone, forget_tokens
from peaker_host.machine.errors import BaseNotPrepared, DatabaseUnreachable, HostError
from peaker_host.machine.files import read_json, read_text, write_atomically
from peaker_host.machine.host_json import to_decide, write_decided
from peaker_host.machine.image_server import UNITS
from peaker_host.machine.settings import Machine

_AS_ROOT = "[client]\nuser=root\n"
PREPARE = "run peaker prepare-base for this instance"
# What prepare_donor does to the server: it must be allowed, and this changes nothing.
_MAY_DUMP = "SET GLOBAL innodb_buffer_pool_dump_pct = @@GLOBAL.innodb_buffer_pool_dump_pct"


class Administrator:
    """The login with which Peaker looks at the server and dumps its page list: tried from a file of its own for the
    time of the `with` block, and kept as admin.cnf only by `keep`."""

    def __init__(self, machine: Machine, given: str) -> None:
        self._machine, self._given = machine, given
        self._path = ""
        self.facts: Optional[ServerFacts] = None

    def __enter__(self) -> "Administrator":
        descriptor, self._path = tempfile.mkstemp(prefix="peaker-admin-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self._text())
        self.client = MysqlClient(self._machine.processes, self._machine.mysql_client, self._path)
        self.step = looked("administrator", self._try)
        return self

    def __exit__(self, *_: object) -> None:
        os.unlink(self._path)

    def keep(self, facts: ServerFacts) -> Step:
        """Write admin.cnf where it says something else. A login that others keep is included, never copied."""
        path, text = self._machine.admin_defaults_file, self._to_keep(facts)
        if text is None:
            return self.step
        write_atomically(path, text, mode=0o600)
        return Step("administrator", DONE, f"{self.step.detail}; {path} written")

    def look_kept(self, facts: ServerFacts) -> str:
        """Refuses where admin.cnf is not as it should be."""
        if self._to_keep(facts) is None:
            return self.step.detail
        raise Refusal(f"{self.step.detail}, but {self._machine.admin_defaults_file} is not made", PREPARE)

    def _to_keep(self, facts: ServerFacts) -> Optional[str]:
        path = self._machine.admin_defaults_file
        if not self._given and os.path.exists(path):
            return None
        socket = f"[client]\nsocket={facts.socket}\n" if facts.socket else ""
        text = f"{self._text()}{socket}"
        return None if read_text(path) == text else text

    def _text(self) -> str:
        if self._given:
            return f"!include {self._given}\n"
        own = self._machine.admin_defaults_file
        return f"!include {own}\n" if os.path.exists(own) else _AS_ROOT

    def _try(self) -> str:
        own = self._machine.admin_defaults_file
        has_own = os.path.exists(own)
        if self._given or has_own:
            refuse_open_file(self._given or own)
        try:
            who = str(self.client.json({"who": "CURRENT_USER()"})["who"])
        except DatabaseUnreachable as error:
            source = self._given or (f"{own} says" if has_own else "root, by the socket")
            raise Refusal(
                f"no login as {source}: {error}",
                "put the login of an administrator into an option file of the host that only root can read, and name it"
                ": --admin-defaults-file /root/peaker-admin.cnf (docs/base-replica.md has the least rights)",
            ) from error
        try:
            self.client.execute(_MAY_DUMP)
        except DatabaseUnreachable as error:
            raise Refusal(
                f"{who} may not dump the buffer pool's page list: {error}",
                f"GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO {who}; MariaDB: SUPER",
            ) from error
        self.facts = read_facts(self.client)
        return f"{who} logs in"


def refuse_open_file(path: str) -> None:
    """Raise Refusal unless it is a file of root's that nobody else can read: it holds a login."""
    try:
        facts = os.stat(path)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}", "name an option file that is on this host") from error
    if not stat.S_ISREG(facts.st_mode):
        raise Refusal(f"{path} is no file", "name an option file that is on this host")
    if facts.st_uid != 0 or facts.st_mode & 0o077:
        raise Refusal(
            f"{path} is not root's alone (mode {facts.st_mode & 0o777:o}): it holds a login",
            f"chown root {path}; chmod 600 {path}",
        )


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
    machine: Machine,
    settings_path: str,
    request: BaseRequest,
    wait_seconds: float,
    say: Callable[[str], None],
) -> Dict[str, Any]:
    """Looks at the base replica, then makes what is missing; the responder may take `wait_seconds` to answer good.

    Fencing tokens that the host has seen are forgotten: a new installation's ledger counts from 1.

    With `check_only` nothing is made: what is missing is refused, and the result has the server's own numbers.
    Returns the steps and whether anything was changed. Raises BaseNotPrepared with the steps.
    """
    machine = replace(machine, engine=request.engine, health_port=request.health_port)
    preparation = _Preparation(machine, settings_path, request, wait_seconds)
    if request.check_only:
        return preparation.run(say)
    with alone(machine, SentCommand("prepare_base", "", None, None)):
        forget_tokens(machine)
        return preparation.run(say)


class _Preparation:
    """One preparation; its looks change nothing and come before anything is made."""

    def __init__(self, machine: Machine, path: str, request: BaseRequest, wait_seconds: float) -> None:
        self._machine, self._path = machine, path
        self._request, self._wait_seconds = request, wait_seconds

    def run(self, say: Callable[[str], None]) -> Dict[str, Any]:
        request, numbers = self._request, {}
        with Administrator(self._machine, request.admin_defaults_file) as administrator:
            facts, client = administrator.facts, administrator.client
            if facts is None:
                raise _not_prepared([administrator.step], {})
            self._take_over(facts)
            least = request.least_binlog_seconds
            steps = [
                administrator.step,
                *look_at_server(self._machine, client, facts, request.filesystems, least),
                look_at_unit(self._machine),
            ]
            account = looked("health account", self._account)
            if request.check_only:
                steps[0] = looked("administrator", lambda: administrator.look_kept(facts))
                numbers = server_numbers(client, request.engine)
            elif refused([*steps, account]):
                raise _not_prepared([*steps, account], {})
            else:
                steps[0] = administrator.keep(facts)
        say("the server was looked at")
        steps.append(self._ensured("host settings", self._settings_written, self._write_settings))
        steps += self._health_steps(account)
        if refused(steps):
            raise _not_prepared(steps, numbers)
        return {**as_result(steps), **numbers}

    def _health_steps(self, account: Step) -> List[Step]:
        check_only = self._request.check_only
        if not check_only and account.state != THERE:
            account = looked("health account", self._make_account, DONE)
        if refused([account]) and not check_only:
            return [account]
        steps = [
            account,
            self._ensured("health policy", self._policy_stored, self._store_policy),
            self._ensured("agent retention", self._retention_short, self._shorten_retention),
            self._ensured("health responder", self._responder_runs, self._start_responder),
        ]
        return steps if refused(steps[-1:]) else [*steps, looked("health answer", self._await_good)]

    def _ensured(self, name: str, look: Callable[[], str], make: Callable[[], str]) -> Step:
        """The step of a look; what it misses is made, unless this is only a check."""
        found = looked(name, look)
        return found if found.state == THERE or self._request.check_only else looked(name, make, DONE)

    def _take_over(self, facts: ServerFacts) -> None:
        """Lays what the server and systemd say over the settings, where nobody wrote it into host.json."""
        written = read_json(self._path) or {}
        if "datadir" not in written:
            self._machine = replace(self._machine, datadir=facts.datadir)
        if "mysql_service" in written:
            return
        units = dict.fromkeys((self._machine.mysql_service, *UNITS))
        active = [unit for unit in units if self._machine.systemctl("is-active", unit)]
        if active:
            self._machine = replace(self._machine, mysql_service=active[0])

    def _settings_written(self) -> str:
        if decided := to_decide(self._machine, self._path):
            raise Refusal(f"{self._path} does not say {_named(decided)}", PREPARE)
        return f"{self._path} says what is so" if read_json(self._path) else "the defaults are so"

    def _write_settings(self) -> str:
        """host.json keeps what others wrote; what the cluster's settings decide wins."""
        decided = to_decide(self._machine, self._path)
        write_decided(self._path, decided)
        return f"{self._path}: {_named(decided)}"

    def _policy_stored(self) -> str:
        path = self._machine.health_policy_file
        stored = read_json(path) or {}
        wrong = {name: value for name, value in self._request.health.items() if stored.get(name) != value}
        if not wrong:
            return path
        raise Warned(f"{path} does not say {_named(wrong)}", PREPARE)

    def _store_policy(self) -> str:
        store_policy(self._machine, self._request.health)
        return self._machine.health_policy_file

    def _retention_short(self) -> str:
        hours = kept_hours(self._machine)
        if is_short(hours):
            return f"{self._machine.agent_config}: {FIELD} {hours:g}"
        kept = "14 days (the agent's default)" if hours is None else f"{hours:g} hours"
        raise Warned(f"the folder of each command is kept for {kept}", PREPARE)

    def _shorten_retention(self) -> str:
        shorten_retention(self._machine)
        from_then = "it counts from the agent's next start: systemctl restart amazon-ssm-agent"
        return f"{self._machine.agent_config}: {FIELD} {RETENTION_HOURS}; {from_then}"

    def _account(self) -> str:
        """Checks the responder's login; tells the owner's remedy unless its account may be made here."""
        path = self._machine.health_defaults_file
        there = os.path.exists(path)
        problem = login_problem(self._machine) if there else "the file is not there"
        if problem is None:
            refuse_open_file(path)
            return f"{path} logs in"
        if self._request.account_here:
            raise Warned("it is made here", "")
        statements = "".join(
            f"{statement};\n" for statement in statements_for_the_source(self._machine.engine)
        )
        raise Refusal(
            f"{path}: {problem}",
            f"make it on the source, with a password of yours; every replica gets it from there:\n{statements}"
            f"Put its login on this host into {path}, root's alone (mode 600):\n"
            f"[client]\nuser={OWNERS_ACCOUNT}\npassword=<password>\n"
            "Then run this again. Or let an account be made on this replica alone, outside the binary log, with"
            " --create-account-here.",
        )

    def _make_account(self) -> str:
        machine = self._machine
        ensure_health_account(machine, admin_client(machine))
        return f"peaker_health_local made here alone, not logged; {machine.health_defaults_file} written"

    def _responder_runs(self) -> str:
        where = f"on port {self._machine.health_port}"
        same = read_text(os.path.join(self._machine.unit_dir, UNIT)) == unit_text(self._machine)
        runs = [self._machine.systemctl(verb, UNIT) for verb in ("is-enabled", "is-active")]
        if same and all(runs):
            return f"{UNIT} runs {where}"
        raise Refusal(f"{UNIT} does not run as this release has it {where}", PREPARE)

    def _start_responder(self) -> str:
        install_health_service(self._machine)
        return f"{UNIT} started on port {self._machine.health_port}"

    def _await_good(self) -> str:
        """Waits for a good answer at the address that the load balancer and the peers ask."""
        port = self._machine.health_port
        address = listening_addresses(self._machine)[-1].replace("0.0.0.0", "127.0.0.1")
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                status, body = read_health(address, port, _ANSWER_TIMEOUT_SECONDS)
                said = f"{address}:{port} answers {status}: {body.get('why', '')}"
            except (OSError, ValueError, HostError) as error:
                status, said = 0, f"{address}:{port} answers no answer: {error}"
            if status == 200:
                return said
            if status == 404:
                raise Warned(said, "document set_maintenance, off")
            if time.monotonic() > deadline:
                raise Refusal(said, f"mend what it names; journalctl -u {UNIT} has the responder's own words")
            time.sleep(_ANSWER_PAUSE_SECONDS)


def _not_prepared(steps: List[Step], numbers: Dict[str, Any]) -> BaseNotPrepared:
    wrong = refused(steps)
    named = "; ".join(f"{step.name}: {step.detail}" for step in wrong)
    return BaseNotPrepared(f"{len(wrong)} refused: {named}", {**as_result(steps), **numbers})


def _named(values: Dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
