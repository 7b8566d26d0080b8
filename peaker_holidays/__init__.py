"""Public holidays of a place, by the library `holidays`: for the settings at synth, and for a backtest.

Knows none of the other packages, and is in no function: what functions need of it is written into the settings.
"""

from .dates import Holiday, Place, UnknownPlace, check_place, public_holidays, weekday_of_rest

__all__ = ["Holiday", "Place", "UnknownPlace", "check_place", "public_holidays", "weekday_of_rest"]
