# SPDX-License-Identifier: Apache-2.0
"""Threads that take turns as often as possible, for tests of both Python packages."""

import sys
import threading


def run_on_threads(count, work):
    """Calls work() on ``count`` threads, which begin together."""
    together = threading.Barrier(count)

    def begin():
        together.wait()
        work()

    threads = [threading.Thread(target=begin) for _ in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
