"""Rate limits and schedules on one Redis: `punctual bench limits` and `bench schedules` beside
BullMQ's limiter and its job schedulers.

    python3 bench/rivals/python/limit_side.py target/release/punctual 6379 [SCHEDULES]

The second word is the port of a Redis on this machine that holds nothing: the script empties it
between the sides, and stops if it has keys at the start. `bench/rivals/install` installs BullMQ.
Each rate runs by three workers, of which one is killed in the middle. Prints a line of JSON for each
side: the fullest window over all pairs of starts, and how much of the whole windows was used; how
late runs of SCHEDULES schedules (10,000) start that are due at one instant, and the server's CPU for
each from its write to its removal.
"""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RIVALS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../../target")) / "rivals"
WAIT_S = 900
# Starts, span in milliseconds, as a span of the command, jobs: ten whole windows after the first.
RATES = [(10, 1_000, "1s", 130), (100, 1_000, "1s", 1_500), (1_000, 1_000, "1s", 15_000), (300, 5_000, "5s", 3_900)]
WORKERS, KILLED = 3, 1


def cli(*words):
    return subprocess.check_output(["redis-cli", "-p", PORT, *words], text=True)


def server_cpu():
    """Seconds of CPU that the server has used."""
    lines = dict(line.split(":", 1) for line in cli("INFO", "cpu").split() if ":" in line)
    return float(lines["used_cpu_user"]) + float(lines["used_cpu_sys"])


def answer_of(words, **environment):
    output = subprocess.check_output(words, env={**os.environ, **environment}, timeout=WAIT_S)
    return json.loads(output)


def punctual(*words):
    address = f"redis://127.0.0.1:{PORT}"
    return answer_of([COMMAND, "bench", *words, "--engine", address, "--output", "json"])


def bullmq(script, *words):
    words = ["node", str(HERE.parent / "node" / script), *map(str, words)]
    return answer_of(words, NODE_PATH=str(RIVALS / "node/node_modules"), REDIS_PORT=PORT)


def limits(starts, span_ms, span, jobs):
    rate = f"{starts}/{span}"
    options = ["--jobs", str(jobs), "--workers", str(WORKERS), "--kill", str(KILLED)]
    kinds = {
        "punctual, window": lambda: punctual("limits", "--rate", rate, "--kind", "window", *options),
        "BullMQ, limiter": lambda: bullmq("limits.cjs", starts, span_ms, jobs, WORKERS, KILLED),
    }
    for side, run in kinds.items():
        cli("FLUSHALL")
        say({"side": side, "rate": rate, "most": starts, **run()})


def schedules(count):
    sides = {
        "punctual, schedules": lambda: punctual("schedules", "--schedules", str(count)),
        "BullMQ, job schedulers": lambda: bullmq("schedulers.cjs", count),
    }
    for side, run in sides.items():
        cli("FLUSHALL")
        before = server_cpu()
        answer = run()
        each = round((server_cpu() - before) * 1e6 / count, 1)
        say({"side": side, **answer, "store_cpu_us_each": each})


def say(line):
    print(json.dumps(line), flush=True)


def main():
    if cli("DBSIZE").strip() != "0":
        sys.exit(f"the Redis on port {PORT} has keys, which this would delete; start an empty one")
    load = os.getloadavg()
    server = [line for line in cli("INFO", "server").split() if line.startswith("redis_version")]
    say({"server": server[0], "load_average": [round(one, 1) for one in load]})
    for rate in RATES:
        limits(*rate)
    schedules(int(sys.argv[3]) if len(sys.argv) > 3 else 10_000)
    say({"load_average_after": [round(one, 1) for one in os.getloadavg()]})


if __name__ == "__main__":
    COMMAND, PORT = sys.argv[1], sys.argv[2]
    main()
