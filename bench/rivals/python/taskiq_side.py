"""taskiq on a stream of Redis; it has no delayed jobs of its own."""

import asyncio

import side
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(url=side.ADDRESS, queue_name=side.QUEUE)


@broker.task(task_name="noop")
async def noop(payload):
    side.REPORT.started(payload)


async def send(jobs, callers):
    await broker.startup()
    for size in side.chunks(jobs, callers):
        await asyncio.gather(*(noop.kiq(side.PAYLOAD) for _ in range(size)))
    await broker.shutdown()


def enqueue(jobs, _batch, callers):
    asyncio.run(send(jobs, callers))


def fill(jobs):
    asyncio.run(send(jobs, 100))


def work():
    side.command(["taskiq", "worker", "taskiq_side:broker", "--workers", "2"])


if __name__ == "__main__":
    side.carry_out({"enqueue": enqueue, "fill": fill, "work": work})
