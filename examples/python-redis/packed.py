"""The packed forms, made from docs/wire-protocol.md alone: the life of three jobs in six calls."""

import os
import struct
import uuid

import redis

SERVER = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1"))
BASE, ANY_INSTANCE = b"punctual:{default/0}", bytes(8)
ALL_64 = (1 << 64) - 1


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


def enqueue(queue, payload, delay_us=0):
    job = uuid.uuid4().bytes
    hashed = content_hash(queue, queue, payload, b"application/json")
    spec = hashed + struct.pack(">HBBB", 0, 5, 0, len(queue)) + queue + b"\0" + payload
    item = job + struct.pack(">BQ", 1 if delay_us else 0, delay_us) + spec
    reply = call("enqueue", struct.pack(">BHI", 0, 1, len(item)) + item)
    return job, reply[8:16]  # and the instance, so that data that vanish are told


def claim(queue, worker, instance, limit=10, lease_us=10_000_000):
    nonce = struct.pack(">Q", uuid.uuid4().int & ALL_64 & ~0x3FF)  # its last ten bits are the shard
    asked = struct.pack(">QHIBBB", lease_us, limit, 1 << 20, 0, 1, len(queue)) + queue
    reply = call("claim", nonce + worker + asked + b"\x80", instance)
    if not reply[17]:
        return None, []
    (count,) = struct.unpack_from(">H", reply, 50)
    ids = [reply[52 + 16 * n : 68 + 16 * n] for n in range(count)]
    return reply[18:34], ids


def extend(token, instance, lease_us=10_000_000):
    page = token + struct.pack(">QHH", lease_us, 0, 0)
    return call("extend", struct.pack(">H", 1) + page, instance)[8] == 1


def complete(token, ids, instance, attempt=1):
    report = token + struct.pack(">HHBIH", 0, 0, 1, attempt, len(ids)) + b"".join(ids)
    return call("settle", struct.pack(">H", 1) + report, instance)[8] == 0


if __name__ == "__main__":
    sent = [enqueue(b"packed", b'{"n":%d}' % n) for n in range(3)]
    shard = sent[0][1]
    page, jobs = claim(b"packed", uuid.uuid4().bytes, shard)
    assert jobs == [job for job, _ in sent], "in the order sent"
    assert extend(page, shard) and complete(page, jobs, shard), "the lease is ours"
    assert not extend(page, shard), "the page has ended with its jobs"
    print("completed", *(uuid.UUID(bytes=job) for job in jobs))
