"""`peaker backtest`: reads a past load from a file or CloudWatch; `peaker_backtest` replays it."""
