"""What Peaker would have done over a load of the past: input, simulation, verdict, report.

May use peaker.domain; the AWS side of `peaker backtest` stays in the command.
"""
