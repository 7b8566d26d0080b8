"""A run's storage proof for a person: await before and after, limits, delivered against promised, the knee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PROOF_STEP = "VerifyStorage"
PARTS_OF_PROOF = frozenset(
    {
        *("volumes", "limits", "against_plan", "instance_baseline_unknown", "iostat", "reason", "looks"),
    }
)
_BAR_CELLS = 24
_REMEDIES = {"cold": ", after the cold neighbourhoods were read again", "all": ", after all was read again"}


def proof_lines(receipt: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a receipt's storage proof; none where no storage was proven."""
    numbers: dict[str, Any] = next(
        (one["numbers"] for one in receipt["steps"] if one["step"] == PROOF_STEP), {}
    )
    if not numbers.get("verdict"):
        return []
    lines = [f"storage proof: {numbers['verdict']}, {numbers.get('reason') or 'no reason kept'}"]
    lines += [f"  {line}" for line in look_lines(numbers.get("looks") or ())]
    volumes = [one for one in numbers.get("volumes") or () if isinstance(one, dict)]
    for volume in volumes:
        lines.append(f"  {volume.get('name', '?')}: {_awaits(volume)}")
    for limit in numbers.get("limits") or ():
        lines += _limit_lines(limit)
    for compared in numbers.get("against_plan") or ():
        lines.append(f"  together: {_compared(compared)}")
    if numbers.get("instance_baseline_unknown"):
        lines.append(f"  the instance's baseline is not known: {numbers['instance_baseline_unknown']}")
    for volume in volumes:
        if volume.get("knee"):
            lines += [f"  {line}" for line in knee_lines(str(volume.get("name", "?")), volume["knee"])]
    return lines


def look_lines(looks: Sequence[dict[str, Any]]) -> list[str]:
    """Returns one line per look, where there was more than one: what was read again before, and what it said."""
    if len(looks) < 2:
        return []
    return [
        f"look {number}{_REMEDIES.get(look.get('remedy', 'none'), '')}: {look['verdict']}, {look.get('reason')}"
        for number, look in enumerate(looks, 1)
    ]


def knee_lines(name: str, knee: dict[str, Any]) -> list[str]:
    """Returns a search for the knee in words, then a bar per step: how many requests per s, and their await."""
    if knee.get("missing"):
        return [f"{name}: no knee: {knee['missing']}"]
    crossings = ", ".join(_crossing(one) for one in knee["crossings"])
    full = knee["full_rate"]
    lines = [
        f"{name}: knee: {crossings}; no more than {full['requests_per_s']:,.0f}/s from {full['concurrency']} at once"
    ]
    most = max(rate for _, rate, _ in knee["steps"])
    for concurrency, rate, await_ms in knee["steps"]:
        bar = "█" * max(1, round(rate / most * _BAR_CELLS)) if rate > 0 else ""
        lines.append(f"{concurrency:>5} at once {rate:>9,.0f}/s {bar:<{_BAR_CELLS}} {await_ms:>8.1f} ms")
    return lines + [f"{name}: {warning}" for warning in knee.get("warnings") or ()]


def _crossing(crossing: dict[str, Any]) -> str:
    at = crossing["concurrency"]
    return f"{crossing['await_limit_ms']:g} ms " + ("not reached" if at is None else f"at {at:.1f} at once")


def _awaits(volume: dict[str, Any]) -> str:
    cold = volume.get("await_cold_ms")
    before = "cold not measured" if cold is None else f"await {cold:g} ms cold"
    return (
        f"{before}, {_ms(volume.get('await_first_ms'))} after the prewarm "
        f"({_ms(volume.get('await_second_ms'))} at the second read), {volume.get('blocks_sampled', '?')} blocks sampled"
    )


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g} ms"


def _limit_lines(limit: dict[str, Any]) -> list[str]:
    lines = [f"  {limit['volume']}: {limit['verdict']}: {limit['reason']}"]
    if limit.get("advice"):
        lines.append(f"    {limit['advice']}")
    return lines


def _compared(compared: dict[str, Any]) -> str:
    if compared["promised"] is None:
        return f"{compared['delivered']:,.0f} {compared['quantity']}, no promise is known"
    return (
        f"{compared['delivered']:,.0f} of {compared['promised']:,.0f} {compared['quantity']} "
        f"promised by the {compared['promised_by']}: {compared['verdict']}"
    )
