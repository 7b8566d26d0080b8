"""`peaker allow-removal`: a cluster's stack goes only where no replica of Peaker's is left.

`judgement` decides and knows no AWS; `command` looks, and lifts the stack's protection.
"""
