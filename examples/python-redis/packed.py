"""The packed forms, made from docs/wire-protocol.md alone: the life of three jobs in six calls, then a job for later, two
with the same key, one that a wakeup announces, and a suspect, whose lease ended twice without a settlement."""

import os
import struct
import threading
import time
import uuid

import redis

SERVER = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1"))
BASE, ANY_INSTANCE = b"punctual:{default/0}", bytes(8)
ALL_64 = (1 << 64) - 1
MERGED = 2  # a verdict
SETTLED, COMPLETED = b"\0", b"\4"  # a verdict and a state
WOKEN, COMES_BY_ITSELF, SUSPECTS_TOO = 4, 16, 64  # flags of a claim


def call(verb, body, instance=ANY_INSTANCE):
    return SERVER.fcall("punctual_1_" + verb, 1, BASE, instance + body)


def content_hash(*fields):
    h = 0xCBF29CE484222325
    for field in fields:
        words = [field[at : at + 8].ljust(8, b"\0") for at in range(0, len(field), 8)]
        for word in [len(field)] + [int.from_bytes(word, "little") for word in words]:
            h = (h ^ word) * 0x100000001B3 & ALL_64
            h = (h << 29 | h >> 35) & ALL_64
    return struct.pack(">Q", h)


def text(value):
    """As MessagePack, of at most 255 bytes."""
    return b"\xd9" + struct.pack(">B", len(value)) + value


def new_id():
    """A UUID of version 7: ids of one time lie in one hash, which a call of many jobs reads at once."""
    random = uuid.uuid4().bytes
    milliseconds = struct.pack(">Q", time.time_ns() // 1_000_000)[2:]
    return milliseconds + bytes([0x70 | random[6] & 0x0F]) + random[7:]


def enqueue(queue, payload, delay_us=0, unique=None):
    """The id of the job that is meant, which is another one's where that holds the key, and the shard's instance, so that
    data that vanish are reported."""
    job = new_id()
    hashed = content_hash(queue, queue, payload, b"application/json")
    opts = b"\x81" + text(b"u") + text(unique) if unique else b""
    counted = struct.pack(">I", len(opts)) + opts if opts else b""
    spec = hashed + struct.pack(">HBBB", 0, 5, 3 if opts else 0, len(queue)) + queue + b"\0" + counted + payload
    item = job + struct.pack(">BQ", 1 if delay_us else 0, delay_us) + spec
    reply = call("enqueue", struct.pack(">BHI", 0, 1, len(item)) + item)
    if reply[16] == 1 and reply[17] == MERGED:
        job = reply[27:43]
    return job, reply[8:16]


def claim(queue, worker, instance, limit=10, lease_duration=10_000_000, flags=0):
    """The lease's token and ids, if there is one, and in how many seconds there may be more, if that is known."""
    nonce = struct.pack(">Q", uuid.uuid4().int & ALL_64 & ~0x3FF)  # its last ten bits are the shard
    asked = struct.pack(">QHIBBB", lease_duration, limit, 1 << 20, flags, 1, len(queue)) + queue
    reply = call("claim", nonce + worker + asked + b"\x80", instance)
    now, wake_at = struct.unpack_from(">QQ", reply)
    wakes = (wake_at - now) / 1e6 if wake_at else None
    if not reply[17]:
        return None, [], wakes
    (count,) = struct.unpack_from(">H", reply, 50)
    ids = [reply[52 + 16 * n : 68 + 16 * n] for n in range(count)]
    return reply[18:34], ids, wakes


def claim_when_there_is_something(queue, worker, instance, is_asleep=lambda: None):
    """Sleeps by its own clock until the next job is due, or a wakeup arrives."""
    rang, flags = threading.Event(), COMES_BY_ITSELF

    def listen():
        while SERVER.bzpopmin(BASE + b":d:" + queue, 0):
            rang.set()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        rang.clear()
        lease, jobs, wakes = claim(queue, worker, instance, flags=flags)
        if jobs:
            return lease, jobs
        is_asleep()
        flags = COMES_BY_ITSELF + (WOKEN if rang.wait(wakes) else 0)


def extend(token, instance, lease_duration=10_000_000):
    lease = token + struct.pack(">QHH", lease_duration, 0, 0)
    return call("extend", struct.pack(">H", 1) + lease, instance)[8] == 1


def complete(token, ids, instance, attempt=1):
    report = token + struct.pack(">HHBIH", 0, 0, 1, attempt, len(ids)) + b"".join(ids)
    reply = call("settle", struct.pack(">H", 1) + report, instance)
    each = [reply[9 + 12 * n : 11 + 12 * n] for n in range(len(ids))]  # verdict and state
    return reply[8] == 0 or all(one == SETTLED + COMPLETED for one in each)


if __name__ == "__main__":
    me = uuid.uuid4().bytes
    sent = [enqueue(b"packed", b'{"n":%d}' % n) for n in range(3)]
    shard = sent[0][1]
    lease, jobs, _ = claim(b"packed", me, shard)
    assert jobs == [job for job, _ in sent], "in the order sent"
    assert extend(lease, shard) and complete(lease, jobs, shard), "the lease is ours"
    assert not extend(lease, shard), "the lease has ended with its jobs"
    done = jobs

    began = time.monotonic()
    later, _ = enqueue(b"later", b"{}", delay_us=300_000)
    lease, jobs, wakes = claim(b"later", me, shard)
    assert not jobs and 0 < wakes <= 0.3, "the answer says when to come again"
    lease, jobs = claim_when_there_is_something(b"later", me, shard)
    assert jobs == [later] and time.monotonic() - began >= 0.3, "and never early"
    assert complete(lease, jobs, shard)
    done += jobs

    first, _ = enqueue(b"keyed", b"{}", unique=b"order:7")
    assert enqueue(b"keyed", b"{}", unique=b"order:7")[0] == first, "one job holds the key"
    lease, jobs, _ = claim(b"keyed", me, shard)
    assert jobs == [first] and complete(lease, jobs, shard)
    second, _ = enqueue(b"keyed", b"{}", unique=b"order:7")
    assert second != first, "the key went with its job"
    lease, jobs, _ = claim(b"keyed", me, shard)
    assert jobs == [second] and complete(lease, jobs, shard)
    done += [first, second]

    woken = []
    asleep = lambda: woken or woken.append(enqueue(b"woken", b"{}")[0])
    lease, jobs = claim_when_there_is_something(b"woken", me, shard, asleep)
    assert jobs == woken and complete(lease, jobs, shard), "a wakeup announced it"
    done += jobs
    suspect, _ = enqueue(b"doubted", b"{}")
    for _ in range(2):  # two workers take it and never settle it
        while not claim(b"doubted", uuid.uuid4().bytes, shard, lease_duration=1_000)[1]:
            pass
    for _ in range(1_000):  # until the second lease has ended
        lease, jobs, _ = claim(b"doubted", me, shard, flags=SUSPECTS_TOO)
        if jobs:
            break
    assert jobs == [suspect] and complete(lease, jobs, shard, attempt=3), "it comes to a worker without a lease"
    done += jobs
    print("completed", *(uuid.UUID(bytes=job) for job in done))
