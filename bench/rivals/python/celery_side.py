"""Celery: a message a job, as it has no bulk call."""

from datetime import datetime, timezone

import side
from celery import Celery

app = Celery("celery_side", broker=side.ADDRESS)
app.conf.update(
    task_ignore_result=True,
    task_default_queue=side.QUEUE,
    worker_prefetch_multiplier=128,
)


@app.task(name="noop")
def noop(payload):
    side.REPORT.started(payload)


def enqueue(jobs, _batch, _callers):
    for _ in range(jobs):
        noop.delay(side.PAYLOAD)


def schedule(rate, seconds):
    def send(due):
        eta = datetime.fromtimestamp(due, timezone.utc)
        noop.apply_async((side.as_payload(due),), eta=eta)

    side.schedule(rate, seconds, send)


def fill(jobs):
    for delay in side.delays(jobs):
        noop.apply_async((side.PAYLOAD,), countdown=delay)


def work():
    flags = ["--without-gossip", "--without-mingle", "--concurrency", "2", "-Q", side.QUEUE]
    side.command(["celery", "-A", "celery_side", "worker", *flags])


if __name__ == "__main__":
    side.carry_out({"enqueue": enqueue, "schedule": schedule, "fill": fill, "work": work})
