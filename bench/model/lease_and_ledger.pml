/* The lease and ledger protocol of one cluster, for the model checker spin. How to read and run it: README.md.

   States of the workflows have their names from statemachines/*.yaml, a run's steps theirs from functions/peaker/usecases.
   MUST(In, ...) is invariant In of docs/states-and-invariants.md. WITHOUT_* are mutations: the protocol with one of its
   protections taken away. */

#ifndef RUNS
#define RUNS 2      /* executions of scale_out and scale_in */
#endif
#ifndef UNDOERS
#define UNDOERS 2   /* executions of roll_back and calls of sweep_orphans at one time */
#endif
#ifndef CALLS
#define CALLS 2     /* functions in flight at one time */
#endif
#ifndef TROUBLES
#define TROUBLES 2  /* stops, crashes, refusals, lost answers, repeated events and sweeps, expired leases, deaths, failovers */
#endif

#define CALLERS (RUNS + UNDOERS)
#define NOBODY RUNS
#define NO_ONE CALLERS

mtype = {
  /* scale_out */
  AcquireLease, ReleaseUnseenLease, PlanScaleOut, LaunchReplica, VerifyStorage, RegisterReplica, RampTraffic,
  RecordReceipt, RecordRefusal, ReleaseLease, FenceScaleOut, UndoScaleOut, RecordFailure, RecordUndoIncomplete,
  /* scale_in */
  SelectIdleReplicas, GuardRetirement, DeregisterReplica, RetireReplica, FenceScaleIn, UndoScaleIn,
  /* roll_back */
  IdentifyStoppedRun, ReleaseRecordedRun, FenceStoppedRun, UndoStoppedRun, RestoreStoppedRun,
  RecordRollBack, RecordRollBackIncomplete, ReleaseRolledBackLease,
  /* all of them; a wait, and no state at all */
  LetLateCallsEnd, Idle, Ended,
  /* operations and outcomes */
  scale_out, scale_in, running, succeeded, refused, rolled_back, undo_incomplete, unopened,
  /* rows */
  nothing, intended, made, undone, building, in_service, draining, retired,
  /* a target's groups */
  unregistered, warming, serving,
  /* answers of a function */
  done, no, failed, lost, recorded, no_answer
}

hidden byte waived_I1, waived_I3, waived_I5, waived_I6, waived_I7, waived_I9, waived_I10, waived_I12;
#define MUST(invariant, condition) assert(waived_##invariant || (condition))

/* The lease: one row of the ledger. */
byte lease_run = NOBODY;
byte lease_token;
bool lease_expired;

/* The ledger, by run, and by replica: a replica has the number of the run that built it. */
mtype operation[RUNS];
mtype outcome[RUNS];
byte chosen[RUNS];               /* RunReplica: which replica the run works on */
mtype instance_row[RUNS];
mtype replica_row[RUNS];
bool proof_recorded[RUNS];

/* The cloud, as AWS has it. */
byte instances[RUNS];            /* that carry the run's tag and that the run made */
bool client_token_used[RUNS];
bool foreign[RUNS];              /* an instance with the run's tags that somebody copied */
mtype target[RUNS];
bool proof_holds[RUNS];
byte base_serving = 1;
byte min_replicas;
byte max_replicas;

/* Executions, and calls of functions in flight. */
mtype at[CALLERS];
byte run_of[CALLERS];
byte token_of[CALLERS];
bool sweeps[UNDOERS];            /* sweep_orphans instead of roll_back */
byte events[RUNS];               /* of the execution's end, on their way */
mtype fn_state[CALLS];
byte fn_run[CALLS];
byte fn_token[CALLS];
byte fn_pc[CALLS];               /* 0 not begun, 1 before its effect, 2 before its last write */
byte fn_for[CALLS];
bool finishes[CALLS];            /* an undo that found the instance gone */

byte troubles = TROUBLES;

hidden byte all_over, i, n, reply, caller, target_before, instances_before;

#define DESTROYS(s) (fn_state[s] == UndoScaleOut || fn_state[s] == UndoStoppedRun)
/* The undo of a retirement: what terminates already cannot be put back, and its retirement is finished. */
#define RESTORES(s) ((fn_state[s] == UndoScaleIn || fn_state[s] == RestoreStoppedRun) && !finishes[s])
#define RETIRES(s) (fn_state[s] == RetireReplica || finishes[s])
#define CHANGES_THE_CLOUD(s) (fn_state[s] == LaunchReplica || fn_state[s] == RegisterReplica \
  || fn_state[s] == RampTraffic || fn_state[s] == DeregisterReplica || DESTROYS(s) || RESTORES(s) || RETIRES(s))
#define FENCES(state) (state == FenceScaleOut || state == FenceScaleIn || state == FenceStoppedRun)
#define IS_A_STEP(s) (CHANGES_THE_CLOUD(s) || fn_state[s] == PlanScaleOut || fn_state[s] == VerifyStorage \
  || fn_state[s] == SelectIdleReplicas || fn_state[s] == GuardRetirement || fn_state[s] == RecordReceipt \
  || fn_state[s] == RecordRefusal || fn_state[s] == RecordFailure || fn_state[s] == RecordUndoIncomplete \
  || fn_state[s] == RecordRollBack || fn_state[s] == RecordRollBackIncomplete)
#define CLOSED(r) (outcome[r] == succeeded || outcome[r] == refused || outcome[r] == rolled_back)
#ifdef WITHOUT_FIRST_CHOICE
#define CHOOSES(s) true
#else
#define CHOOSES(s) (chosen[fn_run[s]] == NOBODY)
#endif
#define OBJECT(s) chosen[fn_run[s]]

#ifdef WITHOUT_TOKEN
#define HOLDS(s) (lease_run == fn_run[s])
#else
#define HOLDS(s) (lease_run == fn_run[s] && lease_token == fn_token[s])
#endif

inline Reply(what) { reply = what }

/* How many replicas serve besides this one. */
inline CountOthersServing(o) {
  n = base_serving; i = 0;
  do :: i < RUNS -> if :: i != o && target[i] == serving && instances[i] > 0 -> n++ :: else fi; i++ :: else -> break od
}

inline CountPeakReplicas() {
  n = 0; i = 0;
  do :: i < RUNS -> n = n + instances[i]; i++ :: else -> break od
}

/* --- the functions: a first write under the token, the effect that AWS checks no token for, a last write --- */

/* acquire_lease: a conditional write. With `fence` the run that holds the lease gets a new token. */
inline TakeLease(s) {
  if
  :: lease_run == fn_run[s] && !lease_expired && !FENCES(fn_state[s]) -> fn_token[s] = lease_token; fn_pc[s] = 1
  :: else ->
     if
     :: lease_run == NOBODY || lease_expired || (lease_run == fn_run[s] && FENCES(fn_state[s])) ->
        lease_run = fn_run[s]; lease_token++; lease_expired = false; fn_token[s] = lease_token; fn_pc[s] = 1
     :: else -> Reply(no)
     fi
  fi
}

inline OpenRun(s) {
  if
  :: HOLDS(s) ->
     if
     :: outcome[fn_run[s]] == unopened -> outcome[fn_run[s]] = running; Reply(done)
#ifndef WITHOUT_SECOND_LOOK
     :: CLOSED(fn_run[s]) && fn_state[s] == FenceStoppedRun -> Reply(recorded)   /* meanwhile it was ended by another */
     :: else -> Reply(done)
#else
     :: else -> Reply(done)
#endif
     fi
  :: else -> Reply(lost)
  fi
}

#ifdef WITHOUT_OWNER_ON_RELEASE
#define OWNS(s, token) (lease_run != NOBODY)
#else
#define OWNS(s, token) (lease_run == fn_run[s] && lease_token == token)
#endif

inline GiveBack(s, token) {
  if
  :: OWNS(s, token) -> lease_run = NOBODY; lease_expired = false
  :: else
  fi;
  Reply(done)
}

inline CloseRun(s, how) { outcome[fn_run[s]] = how; Reply(done) }

/* The first call of every step: start_step renews the lease and fails without the token. */
inline Begin(s) {
  lease_expired = false;
  if
  :: fn_state[s] == PlanScaleOut ->
     CountPeakReplicas();
     if :: n < max_replicas -> Reply(done) :: else -> Reply(no) fi
  :: fn_state[s] == LaunchReplica ->
     if :: instance_row[fn_run[s]] == nothing -> instance_row[fn_run[s]] = intended :: else fi; fn_pc[s] = 1
  :: fn_state[s] == VerifyStorage ->
     proof_recorded[fn_run[s]] = true; proof_holds[fn_run[s]] = true; Reply(done)
  :: fn_state[s] == RegisterReplica ->
     if
#ifdef WITHOUT_RECHECK
     :: proof_recorded[fn_run[s]] -> fn_pc[s] = 1
     :: !proof_recorded[fn_run[s]] -> Reply(failed)
#else
     :: proof_holds[fn_run[s]] -> fn_pc[s] = 1
     :: !proof_holds[fn_run[s]] -> Reply(failed)
#endif
     fi
  :: fn_state[s] == SelectIdleReplicas ->
     if
#ifndef WITHOUT_FIRST_CHOICE
     :: chosen[fn_run[s]] != NOBODY -> Reply(done)     /* a call that comes late does not choose again */
#endif
     :: CHOOSES(s) && replica_row[0] == in_service -> chosen[fn_run[s]] = 0; Reply(done)
     :: CHOOSES(s) && replica_row[1] == in_service -> chosen[fn_run[s]] = 1; Reply(done)
#if RUNS > 2
     :: CHOOSES(s) && replica_row[2] == in_service -> chosen[fn_run[s]] = 2; Reply(done)
#endif
     :: else -> Reply(no)
     fi
  :: fn_state[s] == GuardRetirement ->
     CountOthersServing(OBJECT(s));
     if :: n >= min_replicas -> Reply(done) :: else -> Reply(no) fi
  :: fn_state[s] == DeregisterReplica ->
     CountOthersServing(OBJECT(s));
     if
#ifdef WITHOUT_RECHECK
     :: true ->
#else
     :: n >= min_replicas && (replica_row[OBJECT(s)] == in_service || replica_row[OBJECT(s)] == draining) ->
#endif
        replica_row[OBJECT(s)] = draining; fn_pc[s] = 1
     :: else -> Reply(failed)
     fi
  :: RETIRES(s) ->
     CountOthersServing(OBJECT(s));
     if
     :: n >= min_replicas || instances[OBJECT(s)] == 0 -> fn_pc[s] = 1
     :: else -> Reply(failed)
     fi
  :: RESTORES(s) ->
     if
     :: chosen[fn_run[s]] == NOBODY || replica_row[OBJECT(s)] == in_service -> Reply(done)
     :: chosen[fn_run[s]] != NOBODY && replica_row[OBJECT(s)] != in_service && instances[OBJECT(s)] == 0 ->
        finishes[s] = true; fn_pc[s] = 1
     :: chosen[fn_run[s]] != NOBODY && replica_row[OBJECT(s)] == draining && instances[OBJECT(s)] > 0 -> fn_pc[s] = 1
     fi
  :: fn_state[s] == RecordReceipt -> CloseRun(s, succeeded)
  :: fn_state[s] == RecordRefusal -> CloseRun(s, refused)
  :: fn_state[s] == RecordFailure || fn_state[s] == RecordRollBack -> CloseRun(s, rolled_back)
  :: fn_state[s] == RecordUndoIncomplete || fn_state[s] == RecordRollBackIncomplete -> CloseRun(s, undo_incomplete)
  :: fn_state[s] == RampTraffic || DESTROYS(s) -> fn_pc[s] = 1
  fi
}

/* What AWS does, whoever holds the lease by then. A repeated call that finds its work done changes nothing. */
inline Effect(s) {
  i = OBJECT(s);
  target_before = target[i];
  instances_before = instances[i];
  if
  :: fn_state[s] == LaunchReplica ->
     if
     :: client_token_used[fn_run[s]] -> skip
     :: else ->
        instances[fn_run[s]]++;
#ifndef WITHOUT_CLIENT_TOKEN
        client_token_used[fn_run[s]] = true;
#endif
        MUST(I7, instance_row[fn_run[s]] == intended);
        MUST(I10, instances[fn_run[s]] == 1);
        CountPeakReplicas();
        MUST(I12, n <= max_replicas)
     fi
  :: fn_state[s] == RegisterReplica ->
     MUST(I5, proof_holds[fn_run[s]] && instances[fn_run[s]] > 0);
     if :: target[fn_run[s]] == unregistered -> target[fn_run[s]] = warming :: else fi
  :: fn_state[s] == RampTraffic ->
     MUST(I5, target[fn_run[s]] != unregistered);
     target[fn_run[s]] = serving
  :: fn_state[s] == DeregisterReplica ->
     CountOthersServing(OBJECT(s));
     MUST(I3, n >= min_replicas || target[OBJECT(s)] != serving);
     MUST(I1, instance_row[OBJECT(s)] == made || target[OBJECT(s)] == unregistered);
     target[OBJECT(s)] = unregistered
  :: RESTORES(s) ->
     MUST(I5, proof_holds[OBJECT(s)] && instances[OBJECT(s)] > 0);
     target[OBJECT(s)] = serving
  :: RETIRES(s) ->
     CountOthersServing(OBJECT(s));
     MUST(I3, n >= min_replicas || target[OBJECT(s)] != serving);
     MUST(I1, instance_row[OBJECT(s)] == made || instance_row[OBJECT(s)] == undone);
     target[OBJECT(s)] = unregistered; instances[OBJECT(s)] = 0
  :: DESTROYS(s) ->
#ifndef WITHOUT_ROLL_FORWARD
     if
     :: target[fn_run[s]] == serving && instances[fn_run[s]] > 0 -> skip    /* once in service it stays */
     :: else ->
#endif
        MUST(I3, target[fn_run[s]] != serving);
        target[fn_run[s]] = unregistered;
        if :: instance_row[fn_run[s]] != nothing -> instances[fn_run[s]] = 0 :: else fi;
#ifdef WITHOUT_LEDGER_ROW
        MUST(I1, !foreign[fn_run[s]]);
        foreign[fn_run[s]] = false
#endif
#ifndef WITHOUT_ROLL_FORWARD
     fi
#endif
  fi;
  i = OBJECT(s);
  if
  :: target[i] != target_before || instances[i] != instances_before ->
     MUST(I6, lease_run == fn_run[s] || lease_run == NOBODY);
     MUST(I9, !CLOSED(fn_run[s]))
  :: else
  fi;
  fn_pc[s] = 2
}

inline Finish(s) {
  if
  :: fn_state[s] == LaunchReplica -> instance_row[fn_run[s]] = made; replica_row[fn_run[s]] = building
  :: fn_state[s] == RampTraffic -> replica_row[fn_run[s]] = in_service
  :: RESTORES(s) -> replica_row[OBJECT(s)] = in_service
  :: RETIRES(s) -> replica_row[OBJECT(s)] = retired; instance_row[OBJECT(s)] = undone
  :: DESTROYS(s) ->
     if
     :: target[fn_run[s]] == serving -> replica_row[fn_run[s]] = in_service
     :: else ->
        if :: replica_row[fn_run[s]] != nothing -> replica_row[fn_run[s]] = retired :: else fi;
        if :: instance_row[fn_run[s]] != nothing -> instance_row[fn_run[s]] = undone :: else fi
     fi
  :: else
  fi;
  Reply(done)
}

/* --- the workflows: which state follows on which answer --- */

#define FAILED (reply == failed || reply == lost)

inline EndExecution(r) {
  at[r] = Ended;
  if
  :: events[r] = 0                                   /* the event of its end is lost */
  :: events[r] = 1
  :: troubles > 0 -> troubles--; events[r] = 2           /* it is delivered twice */
  fi
}

inline NextOfScaleOut(c) {
  if
  :: at[c] == AcquireLease ->
     if :: reply == done -> at[c] = PlanScaleOut :: reply == no -> EndExecution(c)
        :: FAILED -> at[c] = ReleaseUnseenLease fi
  :: at[c] == PlanScaleOut ->
     if :: reply == done -> at[c] = LaunchReplica :: reply == no -> at[c] = RecordRefusal
        :: FAILED -> at[c] = FenceScaleOut fi
  :: at[c] == LaunchReplica -> if :: reply == done -> at[c] = VerifyStorage :: FAILED -> at[c] = FenceScaleOut fi
  :: at[c] == VerifyStorage -> if :: reply == done -> at[c] = RegisterReplica :: FAILED -> at[c] = FenceScaleOut fi
  :: at[c] == RegisterReplica -> if :: reply == done -> at[c] = RampTraffic :: FAILED -> at[c] = FenceScaleOut fi
  :: at[c] == RampTraffic -> if :: reply == done -> at[c] = RecordReceipt :: FAILED -> at[c] = FenceScaleOut fi
  :: at[c] == RecordReceipt -> if :: reply == done -> at[c] = ReleaseLease :: FAILED -> at[c] = FenceScaleOut fi
  :: at[c] == FenceScaleOut -> if :: reply == done -> at[c] = LetLateCallsEnd :: else -> EndExecution(c) fi
  :: at[c] == UndoScaleOut ->
     if :: reply == done -> at[c] = RecordFailure :: reply == failed -> at[c] = RecordUndoIncomplete
        :: reply == lost -> EndExecution(c) fi
  :: at[c] == RecordFailure || at[c] == RecordUndoIncomplete || at[c] == RecordRefusal -> at[c] = ReleaseLease
  :: at[c] == ReleaseLease || at[c] == ReleaseUnseenLease -> EndExecution(c)
  fi
}

inline NextOfScaleIn(c) {
  if
  :: at[c] == AcquireLease ->
     if :: reply == done -> at[c] = SelectIdleReplicas :: reply == no -> EndExecution(c)
        :: FAILED -> at[c] = ReleaseUnseenLease fi
  :: at[c] == SelectIdleReplicas || at[c] == GuardRetirement ->
     if :: reply == no -> at[c] = RecordRefusal
        :: reply == done && at[c] == SelectIdleReplicas -> at[c] = GuardRetirement
        :: reply == done && at[c] == GuardRetirement -> at[c] = DeregisterReplica
        :: FAILED -> at[c] = FenceScaleIn fi
  :: at[c] == DeregisterReplica -> if :: reply == done -> at[c] = RetireReplica :: FAILED -> at[c] = FenceScaleIn fi
  :: at[c] == RetireReplica -> if :: reply == done -> at[c] = RecordReceipt :: FAILED -> at[c] = FenceScaleIn fi
  :: at[c] == RecordReceipt -> if :: reply == done -> at[c] = ReleaseLease :: FAILED -> at[c] = FenceScaleIn fi
  :: at[c] == FenceScaleIn -> if :: reply == done -> at[c] = LetLateCallsEnd :: else -> EndExecution(c) fi
  :: at[c] == UndoScaleIn ->
     if :: reply == done -> at[c] = RecordFailure
        :: reply == failed -> at[c] = RecordUndoIncomplete :: reply == lost -> EndExecution(c) fi
  :: at[c] == RecordFailure || at[c] == RecordUndoIncomplete || at[c] == RecordRefusal -> at[c] = ReleaseLease
  :: at[c] == ReleaseLease || at[c] == ReleaseUnseenLease -> EndExecution(c)
  fi
}

inline UndoByOperation(c) {
  if :: operation[run_of[c]] == scale_out -> at[c] = UndoStoppedRun :: else -> at[c] = RestoreStoppedRun fi
}

inline NextOfRollBack(c) {
  if
  :: at[c] == IdentifyStoppedRun ->
     if :: reply == done -> at[c] = FenceStoppedRun :: reply == recorded -> at[c] = ReleaseRecordedRun
        :: else -> at[c] = Idle fi
  :: at[c] == FenceStoppedRun ->
     if
     :: reply == done && !sweeps[c - RUNS] -> at[c] = LetLateCallsEnd
     :: reply == done && sweeps[c - RUNS] -> UndoByOperation(c)
     :: reply == recorded -> at[c] = ReleaseRecordedRun
     :: else -> at[c] = Idle
     fi
  :: at[c] == UndoStoppedRun || at[c] == RestoreStoppedRun ->
     if
     :: reply == done -> at[c] = RecordRollBack
     :: reply == failed && !sweeps[c - RUNS] -> at[c] = RecordRollBackIncomplete
     :: reply == failed && sweeps[c - RUNS] -> at[c] = ReleaseRolledBackLease
     :: reply == lost -> at[c] = Idle
     fi
  :: at[c] == RecordRollBack || at[c] == RecordRollBackIncomplete -> at[c] = ReleaseRolledBackLease
  :: at[c] == ReleaseRolledBackLease || at[c] == ReleaseRecordedRun -> at[c] = Idle
  fi
}

/* A call by another execution, or begun before the fence, may still be under way. */
#define LATE(s, c) (fn_pc[s] > 0 && fn_run[s] == run_of[c] && fn_token[s] != token_of[c])
#ifdef WITHOUT_WAIT
#define NO_LATE_CALL(c) true
#elif defined(WITHOUT_WAIT_IN_SCALE_IN)
#define NO_LATE_CALL(c) ((c < RUNS && operation[c] == scale_in) || (!LATE(0, c) && !LATE(1, c)))
#elif CALLS == 2
#define NO_LATE_CALL(c) (!LATE(0, c) && !LATE(1, c))
#else
#define NO_LATE_CALL(c) (!LATE(0, c) && !LATE(1, c) && !LATE(2, c))
#endif

inline CallIn(s, c) {
  fn_state[s] = at[c]; fn_run[s] = run_of[c]; fn_token[s] = token_of[c]; fn_pc[s] = 0; fn_for[s] = c
}

inline Clear(s) { fn_state[s] = Idle; fn_run[s] = 0; fn_token[s] = 0; fn_pc[s] = 0; fn_for[s] = NO_ONE;
                  finishes[s] = false }

inline Call(c) {
  i = 0;
  do :: fn_state[i] == Idle -> break :: else -> i++ od;
  CallIn(i, c)
}

/* Nobody waits for its calls any more; they go on. */
inline Unlink(c) {
  i = 0;
  do :: i < CALLS -> if :: fn_for[i] == c -> fn_for[i] = NO_ONE :: else fi; i++ :: else -> break od
}

inline RestOf(k) { at[k] = Idle; run_of[k] = 0; token_of[k] = 0; sweeps[k - RUNS] = false }

/* The answer reaches whoever waits; the next state begins at once. Without an answer the same state calls again. */
inline Deliver(s) {
  caller = fn_for[s];
  if
  :: caller != NO_ONE && reply != no_answer ->
     if :: reply == done && (fn_state[s] == AcquireLease || FENCES(fn_state[s])) -> token_of[caller] = fn_token[s] :: else fi;
     Clear(s);
     if
     :: caller >= RUNS -> NextOfRollBack(caller)
     :: caller < RUNS && operation[caller] == scale_out -> NextOfScaleOut(caller)
     :: caller < RUNS && operation[caller] == scale_in -> NextOfScaleIn(caller)
     fi;
     if :: at[caller] != Idle && at[caller] != Ended && at[caller] != LetLateCallsEnd -> CallIn(s, caller) :: else fi;
     if :: caller >= RUNS && at[caller] == Idle -> RestOf(caller) :: else fi
  :: caller != NO_ONE && reply == no_answer -> CallIn(s, caller)
  :: else -> Clear(s)
  fi;
  reply = 0; caller = 0
}

#if CALLS == 2
#define A_CALL_IS_FREE (fn_state[0] == Idle || fn_state[1] == Idle)
#else
#define A_CALL_IS_FREE (fn_state[0] == Idle || fn_state[1] == Idle || fn_state[2] == Idle)
#endif

/* What time does. A function ends after 60 s; these steps take longer, so that no earlier call of the run is left. */
#define TAKES_LONG(s) (fn_state[s] == VerifyStorage || fn_state[s] == RampTraffic || fn_state[s] == RetireReplica)
#define EARLIER_CALL(i, s) (fn_run[i] == fn_run[s] && fn_state[i] != Idle && fn_state[i] != fn_state[s] && \
                            fn_for[i] == NO_ONE && fn_for[s] != NO_ONE)
/* LeaseSettling: a lease that was given back goes to another run only when a call under it must have ended (60 s). One
   whose end has passed was not used for hours. */
#define TAKES_THE_LEASE(s) (fn_state[s] == AcquireLease || FENCES(fn_state[s]))
#define OF_ANOTHER_RUN(i, s) (fn_pc[i] > 0 && fn_run[i] != fn_run[s])
#ifdef WITHOUT_LONG_LEASE
#define UNUSED_FOR_LONG (lease_run == NOBODY)
#else
#define UNUSED_FOR_LONG (lease_run == NOBODY || lease_expired)
#endif
#ifdef WITHOUT_PAUSE
#define LATE_CALL(i, s) (TAKES_LONG(s) && EARLIER_CALL(i, s))
#else
#define LATE_CALL(i, s) ((TAKES_LONG(s) && EARLIER_CALL(i, s)) || (TAKES_THE_LEASE(s) && OF_ANOTHER_RUN(i, s) && \
                         lease_run != fn_run[s] && UNUSED_FOR_LONG))
#endif
#if CALLS == 2
#define MAY_START(s) (fn_pc[s] > 0 || !(LATE_CALL(0, s) || LATE_CALL(1, s)))
#else
#define MAY_START(s) (fn_pc[s] > 0 || !(LATE_CALL(0, s) || LATE_CALL(1, s) || LATE_CALL(2, s)))
#endif

proctype Function(byte s) {
end:
  do
  :: atomic {
       fn_state[s] != Idle && MAY_START(s) ->
       if
       :: fn_pc[s] == 0 && (fn_state[s] == AcquireLease || FENCES(fn_state[s])) -> TakeLease(s)
       :: fn_pc[s] == 1 && (fn_state[s] == AcquireLease || FENCES(fn_state[s])) -> OpenRun(s)
       :: fn_pc[s] == 0 && (fn_state[s] == ReleaseUnseenLease || fn_state[s] == ReleaseRecordedRun) ->
          if :: lease_run == fn_run[s] -> fn_token[s] = lease_token; fn_pc[s] = 1 :: else -> Reply(done) fi
       :: (fn_pc[s] == 0 && (fn_state[s] == ReleaseLease || fn_state[s] == ReleaseRolledBackLease)) ||
          (fn_pc[s] == 1 && (fn_state[s] == ReleaseUnseenLease || fn_state[s] == ReleaseRecordedRun)) ->
          GiveBack(s, fn_token[s])
       :: fn_state[s] == IdentifyStoppedRun -> if :: CLOSED(fn_run[s]) -> Reply(recorded) :: else -> Reply(done) fi
       :: fn_pc[s] == 0 && IS_A_STEP(s) -> if :: HOLDS(s) -> Begin(s) :: else -> Reply(lost) fi
       :: fn_pc[s] == 1 && CHANGES_THE_CLOUD(s) -> Effect(s)
       :: fn_pc[s] == 2 -> if :: HOLDS(s) -> Finish(s) :: else -> Reply(lost) fi
       :: troubles > 0 -> troubles--; Reply(no_answer)                       /* it crashes */
       :: fn_pc[s] == 1 && CHANGES_THE_CLOUD(s) && troubles > 0 -> troubles--; Reply(failed)  /* AWS refuses */
       fi;
       if :: reply != 0 -> Deliver(s) :: else fi
     }
  od
}

proctype Execution(byte c) {
end_begin:
  atomic { at[c] == AcquireLease && A_CALL_IS_FREE -> Call(c) }
end:
  do
  :: atomic { at[c] == LetLateCallsEnd && NO_LATE_CALL(c) && A_CALL_IS_FREE ->
           if :: operation[c] == scale_out -> at[c] = UndoScaleOut :: else -> at[c] = UndoScaleIn fi; Call(c) }
  od
}

#define LEFT_BEHIND(r) (at[r] == Ended && (lease_run == r || outcome[r] == running || outcome[r] == undo_incomplete))
#ifdef ONLY_HELD_LEASES
#define SEEN_BY_THE_SWEEP(r) (at[r] == Ended && lease_run == r && !lease_expired)
#else
#define SEEN_BY_THE_SWEEP(r) LEFT_BEHIND(r)
#endif
/* Three minutes after an execution has ended none of its calls is under way. */
#define OF_THE_EXECUTION(s, r) (fn_state[s] != Idle && fn_run[s] == r && fn_state[s] != UndoStoppedRun \
  && fn_state[s] != RestoreStoppedRun && fn_state[s] != FenceStoppedRun)
#ifdef WITHOUT_WAIT
#define GRACE_IS_OVER(r) true
#elif CALLS == 2
#define GRACE_IS_OVER(r) (!OF_THE_EXECUTION(0, r) && !OF_THE_EXECUTION(1, r))
#else
#define GRACE_IS_OVER(r) (!OF_THE_EXECUTION(0, r) && !OF_THE_EXECUTION(1, r) && !OF_THE_EXECUTION(2, r))
#endif
#define UNDOES(k, r) (at[k] != Idle && run_of[k] == r)
#if UNDOERS == 1
#define IN_HAND(r) UNDOES(RUNS, r)
#else
#define IN_HAND(r) (UNDOES(RUNS, r) || UNDOES(RUNS + 1, r))
#endif
#define LEASE_IS_FREE_FOR(r) (lease_run == NOBODY || lease_expired || lease_run == r)

inline BeginUndo(k, r, state, by_sweep) {
  run_of[k] = r; sweeps[k - RUNS] = by_sweep; at[k] = state; Call(k)
}

/* A run that has its receipt has only its lease left. */
inline SweepOrphans(k, r) {
  if :: IN_HAND(r) -> troubles-- :: else fi;
  if :: CLOSED(r) -> BeginUndo(k, r, ReleaseRecordedRun, true) :: else -> BeginUndo(k, r, FenceStoppedRun, true) fi
}

#define SWEPT(r) (SEEN_BY_THE_SWEEP(r) && LEASE_IS_FREE_FOR(r) && GRACE_IS_OVER(r) && (!IN_HAND(r) || troubles > 0))

#define MAY_BEGIN(k) (at[k] == Idle && A_CALL_IS_FREE)

proctype Undoer(byte k) {
end:
  do
  :: atomic { at[k] == LetLateCallsEnd && NO_LATE_CALL(k) && A_CALL_IS_FREE -> UndoByOperation(k); Call(k) }
  :: atomic { MAY_BEGIN(k) && events[0] > 0 -> events[0]--; BeginUndo(k, 0, IdentifyStoppedRun, false) }
  :: atomic { MAY_BEGIN(k) && events[1] > 0 -> events[1]--; BeginUndo(k, 1, IdentifyStoppedRun, false) }
#if RUNS > 2
  :: atomic { MAY_BEGIN(k) && events[2] > 0 -> events[2]--; BeginUndo(k, 2, IdentifyStoppedRun, false) }
#endif
#ifndef WITHOUT_SWEEP
  :: atomic { MAY_BEGIN(k) && SWEPT(0) -> SweepOrphans(k, 0) }
  :: atomic { MAY_BEGIN(k) && SWEPT(1) -> SweepOrphans(k, 1) }
#if RUNS > 2
  :: atomic { MAY_BEGIN(k) && SWEPT(2) -> SweepOrphans(k, 2) }
#endif
#endif
  od
}

/* --- what happens from outside --- */

inline StopExecution(c) {
  troubles--; Unlink(c);
  if :: c < RUNS -> EndExecution(c) :: else -> RestOf(c) fi
}

#define RENEWED(s) (fn_pc[s] > 0 && fn_run[s] == lease_run)
#ifdef WITHOUT_LONG_LEASE
#define NOBODY_WORKS_UNDER_THE_LEASE true
#elif CALLS == 2
#define NOBODY_WORKS_UNDER_THE_LEASE (!RENEWED(0) && !RENEWED(1))
#else
#define NOBODY_WORKS_UNDER_THE_LEASE (!RENEWED(0) && !RENEWED(1) && !RENEWED(2))
#endif
/* Between a recheck and its call lie milliseconds; nobody can look in between. */
#define TAKES_AWAY(s) (fn_pc[s] == 1 && (fn_state[s] == DeregisterReplica || RETIRES(s)))
#define LETS_IN(s) (fn_pc[s] == 1 && (fn_state[s] == RegisterReplica || fn_state[s] == RampTraffic || RESTORES(s)))
#if CALLS == 2
#define NO_CALL(what) (!what(0) && !what(1))
#else
#define NO_CALL(what) (!what(0) && !what(1) && !what(2))
#endif

/* Its caller calls again while the first call is still at work. */
inline LoseAnswer(s, other) { troubles--; CallIn(other, fn_for[s]); fn_for[s] = NO_ONE }

proctype Outside() {
  byte c;
end:
  do
  :: atomic { troubles > 0 ->
       if
       :: at[0] != Ended -> StopExecution(0)
       :: at[1] != Ended -> StopExecution(1)
#if RUNS > 2
       :: at[2] != Ended -> StopExecution(2)
#endif
       :: at[RUNS] != Idle -> StopExecution(RUNS)
#if UNDOERS > 1
       :: at[RUNS + 1] != Idle -> StopExecution(RUNS + 1)
#endif
       :: else
       fi }
  :: troubles > 0 -> troubles = 0                            /* nothing more happens */
  :: atomic { troubles > 0 && lease_run != NOBODY && !lease_expired && NOBODY_WORKS_UNDER_THE_LEASE ->
       troubles--; lease_expired = true }
  :: atomic { troubles > 0 && base_serving > 0 && NO_CALL(TAKES_AWAY) -> troubles--; base_serving-- }
  :: atomic { troubles > 0 && NO_CALL(LETS_IN) ->             /* a failover: what was proven before follows the old source */
       troubles--; c = 0;
       do
       :: c < RUNS -> if :: target[c] == unregistered && replica_row[c] != draining -> proof_holds[c] = false :: else fi; c++
       :: else -> break
       od; c = 0 }
  :: atomic { troubles > 0 && fn_for[0] != NO_ONE && fn_state[1] == Idle -> LoseAnswer(0, 1) }
  :: atomic { troubles > 0 && fn_for[1] != NO_ONE && fn_state[0] == Idle -> LoseAnswer(1, 0) }
#ifdef WITHOUT_LEDGER_ROW
  :: atomic { troubles > 0 && instance_row[0] == made && instances[0] > 0 -> troubles--; foreign[0] = true }
#endif
  od
}

#define STANDS(r) ((replica_row[r] == in_service && target[r] == serving && instances[r] == 1) \
  || ((replica_row[r] == nothing || replica_row[r] == retired) && target[r] == unregistered && instances[r] == 0))
#define OVER(r) (at[r] == Ended && (outcome[r] == unopened || CLOSED(r)) && STANDS(r))
#if RUNS == 2
#define ALL_OVER (OVER(0) && OVER(1))
#else
#define ALL_OVER (OVER(0) && OVER(1) && OVER(2))
#endif

/* I7: every run ends, and what a stopped one left vanishes, without a person. When nothing can move any more, all is over;
   `converges` says besides that it comes to that, if whoever can move does so at some time. */
#ifndef LIVENESS
proctype AtTheEnd() {
end:
  atomic { timeout -> all_over = ALL_OVER; MUST(I7, lease_run == NOBODY && all_over) }
}
#endif

#ifdef LIVENESS
/* Of the form [] (p -> <> q): spin's search for fair cycles passes over a story that stands still in []<>. */
ltl converges { [] ((at[0] == Ended && at[1] == Ended) -> <> (lease_run == NOBODY && ALL_OVER)) }
ltl a_stop_is_followed_by_a_free_lease { [] ((at[0] == Ended -> <> (lease_run == NOBODY)) \
                                             && (at[1] == Ended -> <> (lease_run == NOBODY))) }
#endif

inline There(r) {
  instance_row[r] = made; replica_row[r] = in_service; proof_recorded[r] = true; proof_holds[r] = true;
  instances[r] = 1; client_token_used[r] = true; target[r] = serving
}

init {
  byte c;
  atomic {
    c = 0;
    do
    :: c < RUNS ->
       operation[c] = scale_out; outcome[c] = unopened; chosen[c] = c; instance_row[c] = nothing;
       replica_row[c] = nothing; target[c] = unregistered; c++
    :: else -> break
    od;
    c = 0;
    do
    :: c < CALLERS ->
       if :: c < RUNS -> at[c] = AcquireLease; run_of[c] = c :: else -> at[c] = Idle fi; c++
    :: else -> break
    od;
    c = 0;
    do :: c < CALLS -> fn_state[c] = Idle; fn_for[c] = NO_ONE; c++ :: else -> break od;
    if
    :: min_replicas = 1; max_replicas = 1                                          /* two builds, room for one */
    :: operation[1] = scale_in; There(1); chosen[1] = NOBODY; min_replicas = 2; max_replicas = 2
    :: operation[0] = scale_in; There(0); chosen[0] = NOBODY;
       operation[1] = scale_in; There(1); chosen[1] = NOBODY; min_replicas = 2; max_replicas = 2
    fi;
    c = 0;
    do :: c < RUNS -> run Execution(c); c++ :: else -> break od;
    do :: c < CALLERS -> run Undoer(c); c++ :: else -> break od;
    c = 0;
    do :: c < CALLS -> run Function(c); c++ :: else -> break od;
    run Outside();
#ifndef LIVENESS
    run AtTheEnd();
#endif
    c = 0
  }
}
