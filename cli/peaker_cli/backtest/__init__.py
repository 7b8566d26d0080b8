"""`peaker backtest`: a past load from a file or from CloudWatch, and what Peaker would have done over it.

`live_load` reads AWS and changes nothing; `command` has the options and prints; `peaker_backtest` replays.
"""
