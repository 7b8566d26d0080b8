"""The limits that all runs share: what a run reserves of them, gives back, and would have to wait for.

Two runs never get the same twice: who finds that another one has written since it looked looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from peaker.domain.limits.account_limits import INITIALIZATION_RATE_QUOTA, Limit, initialization_rate
from peaker.domain.limits.admission import admitted
from peaker.domain.limits.reservations import Reserved, Wanted, WithoutReservation, reserve
from peaker.domain.limits.start_slots import next_slot
from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.methods.rate_reservation import delayed, rate_wanted, with_rates
from peaker.domain.planning.plan import ScaleOutPlan, Way
from peaker.domain.reading import Known, Reading, Unknown
from peaker.ports import Ports
from peaker_contract.errors import LedgerInconsistent, PeakerError, Throttled
from peaker_contract.steps import Part
from peaker_contract.way_into_service import states_of

_LOOKS = 8
_BUSY = "other runs write the shared limits at the same moment; try again"


def initialization_rate_of_region(ports: Ports) -> Limit:
    """As Service Quotas has it. Whatever keeps it from answering, nobody waits for that: AWS's default holds then."""
    return initialization_rate(_told(ports))


def _told(ports: Ports) -> Reading:
    try:
        value = ports.account_quotas.value(INITIALIZATION_RATE_QUOTA)
    except PeakerError as error:
        return Unknown(f"the account's own is unknown: {error}")
    return Unknown("Service Quotas does not have it") if value is None else Known(value)


def take_start_slot(ports: Ports) -> datetime:
    """When the run that asks now may begin. A call that dies after this has used up a turn of the others."""
    for _ in range(_LOOKS):
        begins_at, slots = next_slot(ports.shared_limits.start_slots(), ports.clock.now())
        if ports.shared_limits.keep_start_slots(slots):
            return begins_at
    raise Throttled(_BUSY)


def reserve_rate(ports: Ports, wanted: Wanted) -> Reserved | WithoutReservation:
    """The run's own where it has one already."""
    limit = initialization_rate_of_region(ports)
    for _ in range(_LOOKS):
        there = ports.shared_limits.reservations()
        answer = reserve(there, limit, wanted, ports.clock.now())
        if isinstance(answer, WithoutReservation) or there.of(wanted.run_id) == answer.own:
            return answer
        if ports.shared_limits.keep_reservations(answer.reservations):
            return answer
    raise Throttled(_BUSY)


def hold_rate(ports: Ports, run_id: str, cluster: str, amount: float, seconds: float) -> str | None:
    """From now on for so long instead of what was reserved; why not where that would take from others.

    Who does not get it needs what it had no more.
    """
    wanted = Wanted(run_id, cluster, amount, seconds, ports.clock.now(), patience_seconds=0.0)
    limit = initialization_rate_of_region(ports)
    for _ in range(_LOOKS):
        there = ports.shared_limits.reservations()
        answer = reserve(there.without(run_id), limit, wanted, ports.clock.now())
        if isinstance(answer, WithoutReservation):
            give_back_rate(ports, run_id)
            return answer.why
        if ports.shared_limits.keep_reservations(answer.reservations):
            return None
    raise Throttled(_BUSY)


def give_back_rate(ports: Ports, run_id: str) -> None:
    """What the run has reserved is others' from now on; nothing reserved is no error.

    Neither are reservations that cannot be read: they end by themselves, and no undo waits for them.
    """
    for _ in range(_LOOKS):
        try:
            there = ports.shared_limits.reservations()
        except LedgerInconsistent:
            return
        if there.of(run_id) is None:
            return
        if ports.shared_limits.keep_reservations(there.without(run_id).open_at(ports.clock.now())):
            return
    raise Throttled(_BUSY)


def rate_free(ports: Ports, limit: Limit, seconds: float) -> float:
    """MiB/s of the region's initialization rate that nobody has reserved for the next so many seconds."""
    now = ports.clock.now()
    used = ports.shared_limits.reservations().in_use(now, now + timedelta(seconds=seconds))
    return max(0.0, limit.capacity - used)


def admitted_ways(
    ports: Ports,
    limit: Limit,
    build: ScaleOutPlan,
    ways: Sequence[Way],
    count: int,
    without_rate: Way,
    past: PastSteps,
) -> list[Way]:
    """The ways of all members with what each would wait for now; `without_rate` is that of one that gets no rate.

    Nothing is reserved: a run that begins now finds the same, unless another one is quicker.
    """
    now = ports.clock.now()
    own_seconds = sum(min(past.seconds.get(state, ()), default=0.0) for state in states_of(Part.RESERVATION))
    reservations, slots = ports.shared_limits.reservations(), ports.shared_limits.start_slots()
    found = []
    for number, way in enumerate([*ways, *[ways[-1]] * (count - len(ways))], 1):
        if way.returns is not None:
            found.append(way)
            continue
        slot, slots = next_slot(slots, now)
        volumes = with_rates(build.volumes, way.rates_mib_per_s)
        wanted = rate_wanted(str(number), build.cluster, volumes, way.lead_time, way.choice, slot)
        answer = reserve(reservations, limit, wanted, now) if wanted.amount else None
        if isinstance(answer, Reserved):
            reservations = answer.reservations
        taken = without_rate if isinstance(answer, WithoutReservation) else way
        found.append(delayed(taken, admitted(now, slot, answer), own_seconds))
    return found
