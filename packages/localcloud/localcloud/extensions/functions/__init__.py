"""Lambda: the package's code in processes of its own. The worker imports nothing of this package."""
