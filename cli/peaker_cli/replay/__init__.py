"""`peaker replay`: what could not be delivered is looked at, sent again where it still matters, and then deleted.

`dead_letter` and `target_input` decide and know no AWS; `queues` reads and sends; `command` is what a person types.
"""
