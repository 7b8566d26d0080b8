"""A replica leaves: surplus, choice, guard, drain, the proof that it is idle; then parked, retired or back in service.

Every destructive step asks `guard_retirement` first (I1 to I4, I8). Imports `join`, `plan` and `run`.
"""
