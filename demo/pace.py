"""How fast the day goes: the cloud's clock keeps step with what this machine has left for the work.

MySQL, the prewarm and the workflows take real seconds. Where other programs have half of the processors, the same work
takes twice as long, and on an unchanged clock a replica would come too late for its own forecast.
"""

from __future__ import annotations

import os
import subprocess
import sys

# On two idle processors two replicas side by side serve some 80 real seconds after the alarm. At this many cloud
# seconds per real second that is about the lead time which the settings give.
FASTEST, SLOWEST = 60.0, 20.0
LOOK_SECONDS = 2.0
_SPIN = """\
import sys, time
began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < float(sys.argv[1]):
    pass
print((time.process_time() - used) / (time.monotonic() - began))
"""


def processor_share(seconds: float = LOOK_SECONDS) -> float:
    """The share of each processor that a new program gets now, 0 to 1, from a busy loop on each."""
    command = [sys.executable, "-ISc", _SPIN, str(seconds)]
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(os.cpu_count() or 1)]
    shares = [float(loop.communicate()[0]) for loop in loops]
    return min(1.0, sum(shares) / len(shares))


def clock_scale(share: float) -> float:
    """Cloud seconds per real second at this share of the processors; a tenth of them may be busy with nothing."""
    return max(SLOWEST, min(FASTEST, round(FASTEST * (share + 0.1) / 10) * 10.0))
