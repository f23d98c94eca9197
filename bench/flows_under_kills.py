"""Flows under kills: none stalls, and each callback runs once.

    python3 bench/flows_under_kills.py target/release/punctual --flows 100000 --kills 500

Starts a redis-server with an append-only file, `punctual serve` before it, and producers and
workers that speak HTTP, all on free ports of this machine. It kills one of them with SIGKILL at a
time: of ten kills eight are of workers, one of `serve` and one of Redis. A tenth of the steps end
as dead. Prints a line of JSON: flows that were sent, those that settled as done and as failed,
those that stalled, callbacks that ran twice or never, kills, and seconds. Ends with 1 if one
stalled, or if a callback did not run exactly once.
"""
import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib

TOKEN = "flows-under-kills-0123456789"
LEASE = "2s"
PRODUCERS, WORKERS = 2, 3
DEAD_OF = 10  # one of so many steps ends as dead
PAGE = 500
STALLED_S = 120  # nothing settled for so long

PLANS = [
    [("a", []), ("b", ["a"]), ("c", ["b"])],
    [("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"])],
    [("a", []), ("b", []), ("c", ["a", "b"])],
]


class Gateway:
    """Requests that are sent again until the server answers: each may be repeated."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def send(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        while True:
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                self.connection.request(method, path, text, headers)
                reply = self.connection.getresponse()
                answer = reply.read()
                if reply.status == 200:
                    return json.loads(answer)
                if reply.status < 500 and reply.status != 429:
                    sys.exit(f"{method} {path}: {reply.status} {answer.decode()}")
            except (OSError, http.client.HTTPException):
                pass
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            time.sleep(0.05)


def produce(port, first, step, flows):
    gateway = Gateway(port)
    for n in range(first, flows, step):
        job = {"queue": f"steps-{n % 4}", "max_attempts": 1}
        steps = [{"name": name, "job": job, "after": after} for name, after in PLANS[n % len(PLANS)]]
        plan = {"name": f"f{n}", "steps": steps, "on_settled": {"queue": "callbacks"}}
        gateway.send("POST", "/v1/flows", plan)


def work(port, path):
    """Notes each run of a callback before its settlement, and the verdict after it."""
    gateway = Gateway(port)
    claim = {"queues": ["callbacks"] + [f"steps-{n}" for n in range(4)], "limit": 200, "wait": "1s", "lease_duration": LEASE, "order": "turns"}
    with open(path, "a", buffering=1) as log:
        while True:
            leases = gateway.send("POST", "/v1/claims", claim)["leases"]
            sent, callbacks = [], set()
            for lease in leases:
                settlements = []
                for job in lease["jobs"]:
                    if job["queue"] == "callbacks":
                        callbacks.add(job["id"])
                        log.write(f"{time.time_ns()} run {job['id']}\n")
                    is_dead = job["queue"] != "callbacks" and zlib.crc32(job["id"].encode()) % DEAD_OF == 0
                    settlements.append({"id": job["id"], "attempt": job["attempt"], "outcome": "dead" if is_dead else "completed"})
                sent.append({"token": lease["token"], "settlements": settlements})
            if not sent:
                continue
            for lease in gateway.send("POST", "/v1/settlements", {"leases": sent})["leases"]:
                for one in lease["settlements"]:
                    if one["id"] in callbacks and one["verdict"] == "settled":
                        log.write(f"{time.time_ns()} settled {one['id']}\n")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def has_port(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class Processes:
    def __init__(self, command, folder, flows):
        self.redis_port, self.port = free_port(), free_port()
        redis = ["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        redis += ["--appendonly", "yes", "--appendfsync", "everysec", "--loglevel", "warning"]
        serve = [command, "serve", "--engine", f"redis://127.0.0.1:{self.redis_port}?durability=os", "--listen", f"127.0.0.1:{self.port}"]
        own = [sys.executable, __file__, "--port", str(self.port)]
        self.words = {"redis": redis, "serve": serve}
        for n in range(WORKERS):
            self.words[f"worker-{n}"] = own + ["--work", f"{folder}/worker-{n}.log"]
        for n in range(PRODUCERS):
            self.words[f"producer-{n}"] = own + ["--produce", f"{n},{PRODUCERS},{flows}"]
        self.running, self.output = {}, open(f"{folder}/output.log", "ab")

    def start(self, name):
        environment = {**os.environ, "PUNCTUAL_TOKEN": TOKEN}
        self.running[name] = subprocess.Popen(self.words[name], env=environment, stdout=self.output, stderr=self.output)
        port = {"redis": self.redis_port, "serve": self.port}.get(name)
        while port and not has_port(port):
            if self.running[name].poll() is not None:  # it came before what it needs
                self.running[name] = subprocess.Popen(self.words[name], env=environment, stdout=self.output, stderr=self.output)
            time.sleep(0.05)

    def kill(self, name):
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()
        self.start(name)
        if name == "redis" and self.running["serve"].poll() is not None:
            self.start("serve")

    def are_sent(self):
        return all(self.running[name].poll() == 0 for name in self.running if name.startswith("producer"))

    def end(self):
        for one in self.running.values():
            one.kill()
            one.wait()


def read_flows(gateway):
    """Flows by state, and how many settled."""
    states, after, settled = {}, "", 0
    while True:
        page = gateway.send("GET", f"/v1/flows?limit={PAGE}&after={after}")
        for flow in page["flows"]:
            states[flow["state"]] = states.get(flow["state"], 0) + 1
            settled += "settled_at" in flow and all(one["fired"] for one in flow["callbacks"])
        if "next" not in page:
            return states, settled
        after = page["next"]


def read_callbacks(folder):
    """Callbacks that ran, and those that ran again after they had settled, or settled twice."""
    lines = []
    for n in range(WORKERS):
        with open(f"{folder}/worker-{n}.log") as log:
            # The last line before a kill may be cut off.
            lines += [line.split() for line in log if line.count(" ") == 2 and line.endswith("\n")]
    lines.sort(key=lambda line: int(line[0]))
    ran, settled, twice = set(), set(), set()
    for _, what, job in lines:
        if job in settled:
            twice.add(job)
        (ran if what == "run" else settled).add(job)
    return len(ran), len(twice)


def main(args):
    with tempfile.TemporaryDirectory() as folder:
        processes, began = Processes(args.command, folder, args.flows), time.monotonic()
        try:
            for name in processes.words:
                processes.start(name)
            chance, kills, pause, gateway = random.Random(args.seed), 0, args.seconds / args.kills, Gateway(processes.port)
            while kills < args.kills:
                time.sleep(pause)
                worker = f"worker-{chance.randrange(WORKERS)}"
                processes.kill({8: "serve", 9: "redis"}.get(chance.randrange(10), worker))
                kills += 1
            before, since = -1, time.monotonic()
            while True:
                states, settled = read_flows(gateway)
                ran, twice = read_callbacks(folder)
                done = processes.are_sent() and settled == ran == args.flows
                if (settled, ran) != before:
                    before, since = (settled, ran), time.monotonic()
                if done or time.monotonic() - since > STALLED_S:
                    break
                time.sleep(1)
            seconds = time.monotonic() - began
        finally:
            processes.end()
    print(json.dumps({
        "flows": args.flows, "done": states.get("done", 0), "failed": states.get("failed", 0), "stalled": args.flows - settled,
        "callbacks": ran, "callbacks_twice": twice, "kills": kills, "seconds": round(seconds),
    }))
    sys.exit(0 if settled == ran == args.flows and not twice else 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?")
    parser.add_argument("--flows", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=None, help="between the first kill and the last; half a second for each if not given")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--produce", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.port, args.work)
    elif args.produce:
        produce(args.port, *map(int, args.produce.split(",")))
    else:
        args.seconds = args.seconds or args.kills / 2
        main(args)
