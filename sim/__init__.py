"""A cloud in memory that is as hard as AWS, and the deployed workflows in it on virtual time.

`account.Account` is all that there is, raw, for whoever audits it. The other modules are the ports on it, and
`workflows` the interpreter. Nothing sleeps. A scale_out of half an hour takes a tenth of a second of processor
time, and everything that is left to chance comes from a seed. The expanded workflows, the handlers, the use cases,
the ledger and the lease are the deployed ones; the ports on AWS are those of `sim`.

    from sim.workflows.interferences import LandsLate
    from sim.world import World

    world = World(seed=7)                               # a source, a base replica, the cluster `orders`
    world.load(measured=250, required=3)                # what the load metric and the forecast say
    execution = world.start("scale_out", count=1)       # as a person does; world.run(...) also finishes it

    stop = lambda: world.time.after(0, lambda: world.stop(execution))
    late = LandsLate(at="endpoint.register", seconds=50, functions=world.functions, hit=stop)

    def once(invocation):                               # asked at every invocation; None: nothing happens to it
        return late if invocation.state == "RegisterReplica" else None

    world.functions.interfere = once
    world.finish(execution)                             # until it has ended: SUCCEEDED, FAILED, ABORTED or TIMED_OUT
    world.run_for(3600)                                 # an hour of cloud time, with the schedules and roll_back
    world.account.instances, .volumes, .snapshots, .targets, .hosts, .commands, .table, .leases, .log
    world.close()                                       # ends functions that still stand still

- Let a call fail: `interferences` has Raises, LosesAnswer, DiesBefore, DiesAfter, DiesAtTheEnd, LandsLate, Watches;
  `at` is the number of the call in the invocation, or its name (`compute.launch`).
- Stop an execution: `world.stop(execution)`; at a moment of a function by `hit` as above; at a state by
  `world.workflows.on_enter`.
- Lose or repeat the event of an end: `world.deliveries = lambda execution: ()`, or `(2.0, 40.0)`.
- Make a host answer badly: `world.commands.fail("verify_storage", "DiskFull")`, or
  `world.commands.scripts[document, host] = [answer, ...]`.
- Take something away from outside: `world.compute.terminate(id)`, `world.endpoint.deregister(...)`, unlogged.
- Use up a zone: `world.account.full_zones.add("us-east-1a")`, or a type: `world.account.full_types.add("r6i.large")`.
- Have a DNS name as the read endpoint: `World(7, settings(read_endpoint=by_name()))`.
- See who called what: `world.account.log` (effects); the `calls` of each of `world.functions.invocations`.

Tests of one use case have `calm.calm_ports()`: an empty world with its ports, in which nothing is left to chance. They
plant what they need behind the ports (`ports.compute.add(...)`, `ports.refuses("storage.attach", error)`) and move
`ports.clock` themselves.

A record of the account has a `history` of (second, state), also of what is still to come: `account.state_at(record,
second)`. `world.time.seconds` is now. Lists are late and stale as on AWS; the account itself is the truth.
"""
