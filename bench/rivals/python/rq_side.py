"""RQ: its SimpleWorker, which does not fork for each job, and its scheduler."""

from datetime import datetime, timedelta, timezone

import side
from redis import Redis
from rq import Queue, SimpleWorker

connection = Redis(port=side.PORT)
queue = Queue(side.QUEUE, connection=connection)


def noop(payload):
    side.REPORT.started(payload)


def enqueue(jobs, batch, _callers):
    for size in side.chunks(jobs, batch):
        if size == 1:
            queue.enqueue("rq_side.noop", side.PAYLOAD, result_ttl=0)
            continue
        data = [
            Queue.prepare_data("rq_side.noop", (side.PAYLOAD,), result_ttl=0) for _ in range(size)
        ]
        queue.enqueue_many(data)


def schedule(rate, seconds):
    def send(due):
        at = datetime.fromtimestamp(due, timezone.utc)
        queue.enqueue_at(at, "rq_side.noop", side.as_payload(due), result_ttl=0)

    side.schedule(rate, seconds, send)


def fill(jobs):
    for delay in side.delays(jobs):
        if delay is None:
            queue.enqueue("rq_side.noop", side.PAYLOAD)
        else:
            queue.enqueue_in(timedelta(seconds=delay), "rq_side.noop", side.PAYLOAD)


def work():
    side.end_with_input()
    side.ready()
    SimpleWorker([queue], connection=connection).work(with_scheduler=True, logging_level="ERROR")


if __name__ == "__main__":
    side.carry_out({"enqueue": enqueue, "schedule": schedule, "fill": fill, "work": work})
