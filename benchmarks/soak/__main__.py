"""`python -m benchmarks.soak`: many callers in many processes for some minutes; every answer is checked.

Ends with 0 if all was well: nothing foreign, torn, lost or unexpected, memory and clients flat, no key that never
expires. Ctrl-C ends it early, with the table so far.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from benchmarks.soak.plan import Plan
from benchmarks.soak.run import soak


def main() -> int:
    """Reads the command line and soaks; the exit code."""
    usual = Plan()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=usual.minutes, help="default %(default)s")
    parser.add_argument("--processes", type=int, default=usual.processes, help="worker processes, default %(default)s")
    parser.add_argument("--callers", type=int, default=usual.callers, help="callers in all, default %(default)s")
    parser.add_argument("--sessions", type=int, default=usual.sessions, help="default %(default)s")
    parser.add_argument("--url", help="a Redis that nobody else uses; default: an embedded server of its own")
    options = parser.parse_args()
    try:
        plan = Plan(options.minutes, options.processes, options.callers, options.sessions, options.url)
    except ValueError as error:
        parser.error(str(error))
    return asyncio.run(soak(plan))


if __name__ == "__main__":
    sys.exit(main())
