#!/usr/bin/env python3
"""A Punctual worker with nothing but redis-py.

It claims a lease of jobs, extends the lease while they run, settles each job as it ends and keeps the
rest, and stops at once when the lease is lost. See README.md beside this file.
"""

import json
import os
import signal
import socket
import threading
import time
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
KEY = os.environ.get("PUNCTUAL_KEY", "punctual:{default/0}")
QUEUE = os.environ.get("QUEUE", "files")
LEASE_MS = int(os.environ.get("LEASE_MS", "10000"))
JOB_SECONDS = float(os.environ.get("JOB_SECONDS", "20"))
NAME = os.environ.get("WORKER_NAME", f"{socket.gethostname()}-{os.getpid()}")

# A server that hangs is one that fails: no call may wait for ever, and it is tried again here.
LIMITS = {"socket_timeout": 5, "socket_connect_timeout": 5, "retry": Retry(NoBackoff(), 0)}
server = redis.Redis.from_url(URL, decode_responses=True, **LIMITS)
stopping, idle, woken = threading.Event(), threading.Event(), threading.Event()


def call(function, *words):
    """One function by hand: words in, one line of JSON out; raises what the server refuses."""
    return json.loads(server.execute_command("FCALL", f"punctual_1_{function}", 1, KEY, *words))


def handle(job, lease_lost):
    """The work itself. Checks `lease_lost` now and then: then another worker runs the job."""
    payload = job.get("payload")
    seconds = payload.get("seconds", JOB_SECONDS) if isinstance(payload, dict) else JOB_SECONDS
    lease_lost.wait(seconds)
    return {"by": NAME, "seconds": seconds}


def keep(token, done, lost):
    """Extends a lease at a third of its duration until it is done, or lost."""
    while not done.wait(LEASE_MS / 3000):
        try:
            answer = call("extend", token, "LEASE_MS", LEASE_MS)
        except redis.RedisError as error:
            say(f"extend failed, trying again: {error}")
            continue
        if answer["verdict"] == "lease_lost":
            lost.set()
            return


def settle(token, job, lost, *outcome):
    """Settles one job of the lease, the others stay in it; whether that counted."""
    give_up_at = None
    while not lost.is_set():
        try:
            answer = call("settle", token, job["id"], *outcome)["jobs"][0]
        except redis.RedisError as error:
            # The words are wrong: its lease will end, and it runs again.
            if str(error).startswith("PUNCTUAL "):
                say(f"settle of {job['id']} refused: {error}")
                return False
            # A worker that is asked to end waits for its server for one lease.
            if stopping.is_set():
                give_up_at = give_up_at or time.monotonic() + LEASE_MS / 1000
                if time.monotonic() >= give_up_at:
                    say(f"settle of {job['id']} given up: {error}")
                    return False
            say(f"settle failed, trying again: {error}")
            lost.wait(0.5)  # the same settle again answers `repeated`
            continue
        say(f"settled {job['id']} {outcome[0]}: {answer['verdict']}")
        return answer["verdict"] != "lease_lost"
    return False


def run_one(job, lost):
    """Runs a job; its outcome, in words of settle."""
    if stopping.is_set():
        return ["released"]
    say(f"started {job['id']} attempt {job['attempt']}")
    try:
        return ["completed", "RESULT", json.dumps(handle(job, lost))]
    except Exception as error:  # the job's own failure: another attempt, by its retry policy
        return ["retry", "ERROR", str(error)[:2000]]


def run(lease):
    """Runs the jobs of a lease, one after the other."""
    token, done, lost = lease["token"], threading.Event(), threading.Event()
    extender = threading.Thread(target=keep, args=(token, done, lost))
    extender.start()
    try:
        for job in lease["jobs"]:
            if not settle(token, job, lost, *run_one(job, lost)):
                say("lease lost: another worker will have the jobs of this lease")
                break
    finally:  # whatever ends this thread, its lease must not be kept
        done.set()
        extender.join()


def listen():
    """Receives the queue's wakeup. One that comes while busy is put back for another worker."""
    wakeup, ear = f"{KEY}:d:{QUEUE}", redis.Redis.from_url(URL, socket_timeout=None)
    while True:
        idle.wait()
        try:
            ear.bzpopmin(wakeup, 0)
            woken.set() if idle.is_set() else ear.zadd(wakeup, {"1": 0})
        except redis.RedisError:
            stopping.wait(1)


def say(text):
    print(f"{NAME}: {text}", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threading.Thread(target=listen, daemon=True).start()
    say(f"claims from {QUEUE}")
    nonce, woken_up, alone = uuid.uuid4().hex, False, False
    while not stopping.is_set():
        try:
            # Nothing runs between two leases, so a suspect may come: a job that crashed twice.
            flags = ["WOKEN"] * woken_up + ["ALONE"] * alone
            lease = call("claim", QUEUE, "LIMIT", 10, "LEASE_MS", LEASE_MS, "WORKER", NAME, "NONCE", nonce, *flags)
        except redis.RedisError as error:
            say(f"claim failed, trying again: {error}")
            stopping.wait(1)
            continue  # with the same nonce: if the lease was opened, it is answered again
        waiting = lease.get("suspects_wait", False) and not alone
        nonce, woken_up, alone = uuid.uuid4().hex, False, waiting
        if lease["jobs"]:
            run(lease)
            continue
        if waiting:
            continue
        idle.set()  # until wake_at, or the wakeup; five seconds at most, should a wakeup be lost
        woken_up = woken.wait(min(lease.get("wake_in_ms", 5000) / 1000, 5))
        idle.clear()
        woken.clear()


if __name__ == "__main__":
    main()
