"""Leading metrics in a backtest: their past from files, and what knowing them would have come to.

Pure: texts and replays in, figures and words out.
"""
