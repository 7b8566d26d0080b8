"""Run Command documents on hosts, and parameters. May use the data plane's hosts."""
