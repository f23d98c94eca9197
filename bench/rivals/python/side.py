"""What every side in Python has in common: it takes an order and reports what it has seen."""

import json
import os
import random
import subprocess
import sys
import threading
import time

PORT = int(os.environ["REDIS_PORT"])
ADDRESS = f"redis://127.0.0.1:{PORT}/0"
QUEUE = "bench"
PAYLOAD = "x" * 100
AHEAD = 1.3
SLICES_PER_SECOND = 5
MONTH = 30 * 24 * 3600


def chunks(jobs, batch):
    """Sizes of batches that make up so many jobs."""
    for start in range(0, jobs, batch):
        yield min(batch, jobs - start)


def schedule(rate, seconds, send):
    """Calls `send` with dues in seconds, slice after slice."""
    length = 1 / SLICES_PER_SECOND
    started = time.time()
    sent = 0
    for nth in range(seconds * SLICES_PER_SECOND):
        send_at = started + nth * length
        time.sleep(max(0, send_at - time.time()))
        until = rate * (nth + 1) // SLICES_PER_SECOND
        for _ in range(sent, until):
            send(send_at + AHEAD + random.random() * length)
        sent = until


def delays(jobs):
    """Seconds of delay, `None` for a job that is ready."""
    for nth in range(jobs):
        yield 1 + random.random() * MONTH if nth % 2 else None


def as_payload(due):
    return str(round(due * 1e6))


class Report:
    """What handlers saw, reported in lines; one for each process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.process = None
        self.clear()

    def clear(self):
        self.seen = {"done": 0, "first": 0, "last": 0, "late": []}

    def started(self, payload):
        now = round(time.time() * 1e6)
        with self.lock:
            if self.process != os.getpid():
                self.process = os.getpid()
                threading.Thread(target=self.report, daemon=True).start()
            seen = self.seen
            if payload != PAYLOAD:
                seen["late"].append(now - int(payload))
            seen["first"] = seen["first"] or now
            seen["last"] = now
            seen["done"] += 1

    def report(self):
        # A line of at most a pipe's atomic write, by whichever process.
        out = int(os.environ.get("REPORT_TO", "1"))
        while True:
            time.sleep(0.02)
            with self.lock:
                seen = self.seen
                if not seen["done"]:
                    continue
                self.clear()
            os.write(out, (json.dumps(seen) + "\n").encode())


REPORT = Report()


def ready():
    os.write(1, b'{"ready":true}\n')


def end_with_input():
    """Ends this process, and what it starts, once its input ends."""
    os.setsid()

    def watch():
        sys.stdin.read()
        os.killpg(0, 9)

    threading.Thread(target=watch, daemon=True).start()


def command(words):
    """Runs a worker of its own command until the input ends."""
    out = os.dup(1)
    os.set_inheritable(out, True)
    environment = {**os.environ, "REPORT_TO": str(out), "PYTHONPATH": os.path.dirname(__file__)}
    worker = subprocess.Popen(
        [sys.executable, "-m", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        env=environment,
        start_new_session=True,
    )
    ready()
    sys.stdin.read()
    os.killpg(worker.pid, 9)


def carry_out(orders):
    """Does as the command line says; `orders` are functions by name."""
    name, *numbers = sys.argv[1:]
    started = time.perf_counter()
    orders[name](*map(int, numbers))
    print(json.dumps({"seconds": time.perf_counter() - started}))
