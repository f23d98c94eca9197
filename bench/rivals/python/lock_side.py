"""Handovers of a lock on one Redis: `punctual bench locks`, and redis-py's lock beside it.

    python3 lock_side.py target/release/punctual redis://127.0.0.1:6379 [TAKERS] [HANDOVERS]

Prints a line of JSON for each. redis-py polls: by default every 100 ms, and here also every 5 ms.
A taker that has just released takes the lock again while the others sleep. Such turns are no
handovers, so the handovers that are left are the quick ones: compare `wait_p99_ms` too.
"""
import json
import multiprocessing
import subprocess
import sys
import time

import redis

NAME = "bench-lock-redis-py"
HOLD_S = 0.001


def take(address, sleep_s, me, released, left, spans, waits):
    client = redis.Redis.from_url(address)
    while True:
        lock = client.lock(NAME, timeout=10, sleep=sleep_s)
        began = time.monotonic()
        lock.acquire()
        now = time.monotonic()  # of the machine, the same in every process
        waits.put(now - began)
        other, since = released[0], released[1]
        if other not in (0, me):
            spans.put(now - since)
            left.value -= 1
        time.sleep(HOLD_S)
        if left.value <= 0:
            lock.release()
            return
        released[0], released[1] = me, time.monotonic()
        lock.release()


def measure(address, takers, handovers, sleep_s):
    client = redis.Redis.from_url(address)
    began = time.monotonic()
    for _ in range(500):
        lock = client.lock(NAME, timeout=10)
        lock.acquire()
        lock.release()
    free = (time.monotonic() - began) / 500
    # Only the holder writes these.
    released = multiprocessing.Array("d", [0, 0], lock=False)
    left = multiprocessing.Value("q", handovers, lock=False)
    spans, waits, waited = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue(), []
    workers = [
        multiprocessing.Process(target=take, args=(address, sleep_s, me + 1, released, left, spans, waits))
        for me in range(takers)
    ]
    for worker in workers:
        worker.start()
    got = []
    while True:
        is_over = not any(worker.is_alive() for worker in workers)
        # Read as they come: a pipe that is full would stop its taker.
        while not spans.empty():
            got.append(spans.get())
        while not waits.empty():
            waited.append(waits.get())
        if is_over:
            break
        time.sleep(0.005)
    got, waited = sorted(got[:handovers]), sorted(waited)
    part = lambda spans, hundredths: round(spans[len(spans) * hundredths // 100] * 1e3, 2)
    return {
        "library": f"redis-py {redis.__version__}, sleep {sleep_s * 1e3:g} ms", "takers": takers,
        "handovers": len(got), "handover_p50_ms": part(got, 50), "handover_p99_ms": part(got, 99),
        "wait_p99_ms": part(waited, 99), "free_ms": round(free * 1e3, 2),
    }


if __name__ == "__main__":
    binary, address = sys.argv[1], sys.argv[2]
    takers = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    handovers = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
    ours = [binary, "bench", "locks", "--engine", address, "--takers", str(takers)]
    subprocess.run([*ours, "--handovers", str(handovers), "-o", "json"], check=True)
    for sleep_s in (0.1, 0.005):
        print(json.dumps(measure(address, takers, handovers if sleep_s < 0.1 else handovers // 5, sleep_s)), flush=True)
