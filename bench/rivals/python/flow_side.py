"""A batch with a callback on one Redis: `punctual bench flows`, BullMQ's flow and Celery's chord.

    target/rivals/python/bin/python bench/rivals/python/flow_side.py \
        target/release/punctual 6379 [STEPS]

The second word is the port of a Redis on this machine that holds nothing: the script empties it
between the sides, and stops if it has keys at the start. `bench/rivals/install` installs the others. Prints a line of JSON for each:
steps a second from the first send to the end of the callback, callbacks, and microseconds of the
server's CPU for each step. One process sends and runs; Celery's worker has two beside it.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

import redis
from celery import Celery, chord

PORT = os.environ.get("REDIS_PORT", "6379")
ADDRESS = f"redis://127.0.0.1:{PORT}/0"
HERE = pathlib.Path(__file__).resolve().parent
RIVALS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../../target")) / "rivals"
WAIT_S = 600

app = Celery("flow_side", broker=ADDRESS, backend=ADDRESS)
app.conf.update(task_default_queue="bench", worker_prefetch_multiplier=128)


@app.task(name="step")
def step(nth):
    return nth


@app.task(name="callback")
def callback(results):
    redis.Redis.from_url(ADDRESS).incr("bench-callbacks")
    return len(results)


def celery_chord(steps):
    words = ["celery", "-q", "-A", "flow_side", "worker", "--without-gossip", "--without-mingle"]
    words += ["--concurrency", "2", "-Q", "bench", "--loglevel", "ERROR"]
    environment = {**os.environ, "PATH": f"{RIVALS}/python/bin:{os.environ['PATH']}"}
    worker = subprocess.Popen(words, cwd=HERE, env=environment)
    try:
        while not app.control.ping(timeout=1):
            pass
        began = time.monotonic()
        result = chord(step.s(nth) for nth in range(steps))(callback.s())
        assert result.get(timeout=WAIT_S) == steps
        seconds = time.monotonic() - began
    finally:
        worker.terminate()
        worker.wait()
    return seconds, int(redis.Redis.from_url(ADDRESS).get("bench-callbacks"))


def bullmq_flow(steps):
    environment = {**os.environ, "NODE_PATH": str(RIVALS / "node/node_modules")}
    words = ["node", str(HERE.parent / "node/flows.cjs"), str(steps)]
    answer = json.loads(subprocess.check_output(words, env=environment, timeout=WAIT_S))
    return answer["seconds"], answer["callbacks"]


def ours(steps, command):
    words = [command, "bench", "flows", "--steps", str(steps), "--shape", "batch"]
    words += ["--engine", ADDRESS.removesuffix("/0"), "--output", "json"]
    answer = json.loads(subprocess.check_output(words, timeout=WAIT_S))
    return steps / answer["steps_per_s"], answer["callbacks"]


def main():
    command, steps = sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    server = redis.Redis.from_url(ADDRESS)
    if server.info("keyspace"):
        sys.exit(f"the Redis on port {PORT} has keys, which this would delete; start an empty one")
    sides = {
        "punctual": lambda: ours(steps, command),
        "BullMQ, addFlow": lambda: bullmq_flow(steps),
        "Celery, chord": lambda: celery_chord(steps),
    }
    for name, run in sides.items():
        server.flushall()
        before = cpu(server)
        seconds, callbacks = run()
        per_step = (cpu(server) - before) * 1e6 / steps
        line = {"library": name, "steps": steps, "steps_per_s": round(steps / seconds)}
        line |= {"callbacks": callbacks, "store_cpu_us_per_step": round(per_step, 1)}
        print(json.dumps(line), flush=True)


def cpu(server):
    """Seconds of CPU that the server has used."""
    used = server.info("cpu")
    return used["used_cpu_user"] + used["used_cpu_sys"]


if __name__ == "__main__":
    if os.environ.get("REDIS_PORT") != sys.argv[2]:
        # The module is loaded by Celery's worker too, which knows the port by this name.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "REDIS_PORT": sys.argv[2]})
    main()
