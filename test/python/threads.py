# SPDX-License-Identifier: Apache-2.0
"""Threads that take turns as often as possible, for tests of both Python packages."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor


def run_on_threads(count, work):
    """Calls work() on ``count`` threads, which begin together."""
    together = threading.Barrier(count)

    def begin():
        together.wait()
        work()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(count) as pool:
            for each in [pool.submit(begin) for _ in range(count)]:
                each.result()
    finally:
        sys.setswitchinterval(interval)
