"""The explorer: two calls at once of each step and of each method of an adapter, in every order that can differ.

The use cases and the adapters are the deployed ones, on moto in this process. Each call to AWS is a scheduling point:
`strands` runs calls by a schedule, `orders` says which schedules differ, `account` is AWS, `world` has the workflows on
it, and `steps` and `methods` say what is explored and what must hold.

Every schedule runs in a child of this process (fork), so that all of them begin in the same state. Nothing sleeps,
nothing is left to chance: a finding names the schedule that shows it again.
"""
