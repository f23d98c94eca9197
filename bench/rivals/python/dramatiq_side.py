"""Dramatiq: a message a job, as it has no bulk call."""

import time

import dramatiq
import side
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=side.ADDRESS)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=side.QUEUE, actor_name="noop")
def noop(payload):
    side.REPORT.started(payload)


def enqueue(jobs, _batch, _callers):
    for _ in range(jobs):
        noop.send(side.PAYLOAD)


def send_in(delay, payload):
    noop.send_with_options(args=(payload,), delay=int(delay * 1000))


def schedule(rate, seconds):
    def send(due):
        send_in(due - time.time(), side.as_payload(due))

    side.schedule(rate, seconds, send)


def fill(jobs):
    for delay in side.delays(jobs):
        if delay is None:
            noop.send(side.PAYLOAD)
        else:
            send_in(delay, side.PAYLOAD)


def work():
    side.command(["dramatiq", "dramatiq_side", "--processes", "2", "--threads", "8"])


if __name__ == "__main__":
    side.carry_out({"enqueue": enqueue, "schedule": schedule, "fill": fill, "work": work})
