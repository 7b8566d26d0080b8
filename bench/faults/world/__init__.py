"""A cloud in memory that is as hard as AWS: late, asynchronous, its answers get lost; its state is plain dicts.

`account.Account` is all that there is, raw, for whoever audits it. The other modules are the ports on it.
"""
