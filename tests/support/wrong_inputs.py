"""Wrong execution inputs as people and templates give them, and the fields that are to be blamed for each."""

from __future__ import annotations

from typing import Any

PEAK, LONG = "i-0123456789abcdef0", "x" * 100_000
GOOD: dict[str, Any] = {"cluster": "orders"}

# (workflow, input, the fields to blame)
WRONG_INPUTS: list[tuple[str, Any, set[str]]] = [
    # no object at all
    ("scale_out", None, {"input"}),
    ("scale_out", "orders", {"input"}),
    ("scale_out", [], {"input"}),
    ("scale_out", 1, {"input"}),
    # cluster
    ("scale_out", {}, {"cluster"}),
    ("scale_out", {"cluster": None}, {"cluster"}),
    ("scale_out", {"cluster": ""}, {"cluster"}),
    ("scale_out", {"cluster": "orders\n"}, {"cluster"}),
    ("scale_out", {"cluster": "Orders"}, {"cluster"}),
    ("scale_out", {"cluster": "ordres"}, {"cluster"}),
    ("scale_out", {"cluster": 7}, {"cluster"}),
    ("scale_out", {"cluster": ["orders"]}, {"cluster"}),
    ("scale_out", {"cluster": "../../prod/clusters/orders"}, {"cluster"}),
    ("scale_out", {"cluster": "{% $states.context.Execution.Id %}"}, {"cluster"}),
    ("scale_out", {"cluster": LONG}, {"cluster"}),
    # above_limits: a person's start alone, with a reason
    ("scale_out", {**GOOD, "above_limits": "true", "reason": "the sale"}, {"above_limits"}),
    ("scale_out", {**GOOD, "above_limits": None}, {"above_limits"}),
    ("scale_out", {**GOOD, "above_limits": True}, {"reason"}),
    ("scale_out", {**GOOD, "above_limits": True, "reason": " "}, {"reason"}),
    (
        "scale_out",
        {**GOOD, "above_limits": True, "reason": "the sale", "trigger": {"kind": "schedule"}},
        {"above_limits"},
    ),
    ("scale_in", {**GOOD, "above_limits": True, "reason": "the sale"}, {"above_limits"}),
    # mode
    ("scale_out", {**GOOD, "mode": "PLAN"}, {"mode"}),
    ("scale_out", {**GOOD, "mode": "dry-run"}, {"mode"}),
    ("scale_in", {**GOOD, "mode": None}, {"mode"}),
    ("scale_in", {**GOOD, "mode": ["plan"]}, {"mode"}),
    # count
    ("scale_out", {**GOOD, "count": 0}, {"count"}),
    ("scale_out", {**GOOD, "count": 10**9}, {"count"}),
    ("scale_out", {**GOOD, "count": 10**40}, {"count"}),
    ("scale_out", {**GOOD, "count": "2"}, {"count"}),
    ("scale_out", {**GOOD, "count": 2.5}, {"count"}),
    ("scale_out", {**GOOD, "count": True}, {"count"}),
    ("scale_in", {**GOOD, "count": 0}, {"count"}),
    ("scale_in", {**GOOD, "count": 2, "replica": PEAK}, {"count"}),
    # replica
    ("scale_out", {**GOOD, "replica": PEAK}, {"replica"}),
    ("scale_in", {**GOOD, "replica": None}, {"replica"}),
    ("scale_in", {**GOOD, "replica": ""}, {"replica"}),
    ("scale_in", {**GOOD, "replica": PEAK.upper()}, {"replica"}),
    ("scale_in", {**GOOD, "replica": PEAK + "\n"}, {"replica"}),
    ("scale_in", {**GOOD, "replica": [PEAK]}, {"replica"}),
    ("scale_in", {**GOOD, "replica": "vol-0123456789abcdef0"}, {"replica"}),
    ("scale_in", {**GOOD, "replica": 12345678}, {"replica"}),
    # reason and trigger
    ("scale_out", {**GOOD, "reason": 5}, {"reason"}),
    ("scale_out", {**GOOD, "reason": "x" * 257}, {"reason"}),
    ("scale_out", {**GOOD, "reason": "two\nlines"}, {"reason"}),
    ("scale_out", {**GOOD, "reason": "\x1b[2J"}, {"reason"}),
    ("scale_out", {**GOOD, "trigger": "manual"}, {"trigger"}),
    ("scale_out", {**GOOD, "trigger": {"kind": "Alarm"}}, {"trigger.kind"}),
    ("scale_out", {**GOOD, "trigger": {"kind": "alarm", "at": "yesterday"}}, {"trigger.at"}),
    ("scale_out", {**GOOD, "trigger": {"kind": "alarm", "at": "2026-11-21T01:40:00"}}, {"trigger.at"}),
    ("scale_out", {**GOOD, "trigger": {"kind": "alarm", "at": 1795225200}}, {"trigger.at"}),
    ("scale_out", {**GOOD, "trigger": {"knd": "alarm"}}, {"trigger.knd"}),
    # fields that do not exist
    ("scale_out", {**GOOD, "clutser": "orders"}, {"clutser"}),
    ("scale_out", {**GOOD, "Count": 2}, {"Count"}),
    ("scale_in", {**GOOD, "__proto__": {}}, {"__proto__"}),
    ("scale_in", {**GOOD, "": 1}, {"input"}),
    # several at once
    ("scale_out", {"mode": "PLAN", "count": 0}, {"cluster", "mode", "count"}),
    ("scale_in", {"cluster": "orders", "count": 1, "replica": "x", "kind": 1}, {"replica", "kind"}),
]
