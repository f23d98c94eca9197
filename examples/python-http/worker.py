#!/usr/bin/env python3
"""A Punctual worker over HTTP with nothing but Python's standard library.

It claims a lease of jobs, extends the lease while they run, settles each job as it ends and keeps the
rest, and stops at once when the lease is lost. See README.md beside this file.
"""

import calendar
import json
import os
import secrets
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("PUNCTUAL_URL", "http://127.0.0.1:4180")
TOKEN = os.environ.get("PUNCTUAL_TOKEN", "")
QUEUE = os.environ.get("QUEUE", "files")
LEASE_MS = int(os.environ.get("LEASE_MS", "10000"))
JOB_SECONDS = float(os.environ.get("JOB_SECONDS", "20"))
NAME = os.environ.get("WORKER_NAME", f"{socket.gethostname()}-{os.getpid()}")

WORKER = {"id": str(uuid.uuid4()), "host": NAME, "slots": 1}
stopping = threading.Event()


class Refused(Exception):
    """The gateway will not do this, however often it is asked."""


class Unanswered(Exception):
    """It is unknown whether it was done: the same again is safe."""


def call(route, body, wait_seconds=0):
    """One request, JSON in and out."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(f"{URL}/v1/{route}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=wait_seconds + 10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        raise (Unanswered if error.code in (429, 503) else Refused)(said) from None
    except (OSError, ValueError) as error:
        raise Unanswered(str(error)) from None


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
            answer = call("extensions", {"leases": [{"token": token, "lease_duration": f"{LEASE_MS}ms"}]})
        except Unanswered as error:
            say(f"extend failed, trying again: {error}")
            continue
        if answer["leases"][0].get("lease_lost"):
            lost.set()
            return


def settle(token, job, lost, outcome, measured):
    """Settles one job of the lease, the others stay in it; whether that counted."""
    give_up_at = None
    settlement = {"id": job["id"], "attempt": job["attempt"], **outcome}
    report = {"token": token, "settlements": [settlement], **measured}
    while not lost.is_set():
        try:
            answer = call("settlements", {"leases": [report]})
        except Unanswered as error:
            # A worker that is asked to end waits for the gateway for one lease.
            if stopping.is_set():
                give_up_at = give_up_at or time.monotonic() + LEASE_MS / 1000
                if time.monotonic() >= give_up_at:
                    say(f"settle of {job['id']} given up: {error}")
                    return False
            say(f"settle failed, trying again: {error}")
            lost.wait(0.5)  # the same settle again answers `repeated`
            continue
        verdict = answer["leases"][0]["settlements"][0]["verdict"]
        say(f"settled {job['id']} {outcome['outcome']}: {verdict}")
        return verdict != "lease_lost"
    return False


def run_one(job, lost):
    """Runs a job; its outcome."""
    if stopping.is_set():
        return {"outcome": "released"}
    say(f"started {job['id']} attempt {job['attempt']}")
    try:
        return {"outcome": "completed", "result": handle(job, lost)}
    except Exception as error:  # the job's own failure: another attempt, by its retry policy
        return {"outcome": "retry", "error": str(error)[:2000]}


def microseconds(seconds):
    return max(0, round(seconds * 1e6))


def instant(text):
    """Seconds since 1970 of an instant as the gateway writes it: 2026-11-21T10:00:00.25Z."""
    whole = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    return whole + float("0" + text[19:].rstrip("Z"))


def run(lease, now, sent):
    """Runs the jobs of a lease, one after the other. What it measures is what the dashboard shows as lateness."""
    token, done, lost = lease["token"], threading.Event(), threading.Event()
    extender = threading.Thread(target=keep, args=(token, done, lost))
    extender.start()
    for job in lease["jobs"]:
        started = time.monotonic()
        outcome = run_one(job, lost)
        late = instant(now) - instant(job["due"]) + started - sent  # plus what passed since
        ran = time.monotonic() - started
        measured = {"lateness_us": [microseconds(late)], "run_time_us": [microseconds(ran)]}
        if outcome["outcome"] == "released":  # it has not run
            measured = {}
        if not settle(token, job, lost, outcome, measured):
            say("lease lost: another worker has the jobs of this lease")
            break
    done.set()
    extender.join()


def claim(nonce):
    """What one claim answers, the moment a job is due. With the same nonce a lease whose answer was
    lost is answered again."""
    wish = {"queues": [QUEUE], "limit": 10, "lease_duration": f"{LEASE_MS}ms", "worker": WORKER, "nonce": nonce}
    answer = call("claims", {**wish, "wait": "5s"}, wait_seconds=5)
    if not answer["leases"] and answer["suspects_wait"]:
        # A job that was in two crashes is only given to who runs nothing else, as this one does
        # now.
        answer = call("claims", {**wish, "alone": True})
    return answer


def say(text):
    print(f"{NAME}: {text}", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    say(f"claims from {QUEUE}")
    nonce = secrets.token_hex(8)
    while not stopping.is_set():
        try:
            claimed = claim(nonce)
        except Unanswered as error:
            say(f"claim failed, trying again: {error}")
            stopping.wait(1)
            continue
        # Lateness counts from when the gateway sent the claim: its instant `now` may be as early as
        # that.
        nonce, sent = secrets.token_hex(8), time.monotonic() - claimed["took_us"] / 1e6
        for lease in claimed["leases"]:
            run(lease, claimed["now"], sent)


if __name__ == "__main__":
    main()
