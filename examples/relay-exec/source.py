"""A source of `punctual relay exec`: the files of a directory, each a message; stored ones are deleted.

    punctual relay exec --source 'python3 source.py ./inbox' --into files
"""
import json
import os
import sys
import time

inbox = sys.argv[1]


def waiting():
    return sorted(name for name in os.listdir(inbox) if not name.startswith("."))


while True:
    names = waiting()[:100]
    for name in names:
        with open(os.path.join(inbox, name), encoding="utf-8", errors="replace") as file:
            job = {"payload": {"file": name, "text": file.read()}}
        print(json.dumps({"name": name, "job": job}))
    print(json.dumps({"lag": len(waiting())}), flush=True)
    for _ in names:
        line = sys.stdin.readline()
        if not line:
            sys.exit()  # the relay is gone: what is not answered comes again, under the same name
        answer = json.loads(line)
        if "stored" in answer:
            os.remove(os.path.join(inbox, answer["name"]))
        else:
            os.rename(os.path.join(inbox, answer["name"]), os.path.join(inbox, "." + answer["name"]))
    time.sleep(0.2)
