"""A past load in a closed loop: Peaker's decisions with the settings of now, and with others on the same forecasts.

simulation: the loop; trials: other settings; settings_proposal: the cheapest of them; weekly: the weeks that
`propose_settings` replays; kept_proposal: what it keeps. Pure: a load and forecasts in, courses of replicas and what
they cost out. `peaker_backtest` replays with it too, beside rivals of its own.
"""
