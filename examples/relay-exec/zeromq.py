"""A source of `punctual relay exec`: requests of ZeroMQ, each answered once its job is stored.

    punctual relay exec --source 'python3 zeromq.py tcp://127.0.0.1:5555' --into mail --name zeromq
"""
import json
import sys

import zmq

requests = zmq.Context.instance().socket(zmq.REP)
requests.bind(sys.argv[1])
poller = zmq.Poller()
poller.register(requests, zmq.POLLIN)
poller.register(sys.stdin.fileno(), zmq.POLLIN)
while True:
    if requests not in dict(poller.poll()):
        sys.exit()  # the relay is gone: the client gets no answer and sends again, same name
    frames = requests.recv_multipart()
    if len(frames) != 2:
        requests.send_multipart([b"refused", b"send two frames: a name of your own, and JSON"])
        continue
    name, payload = (frame.decode("utf-8", "replace") for frame in frames)
    try:
        line = {"name": name, "job": {"payload": json.loads(payload)}}
    except ValueError as error:
        line = {"name": name, "job": {"payload": payload}, "bad": f"it is no JSON: {error}"}
    print(json.dumps(line), flush=True)
    answer = json.loads(sys.stdin.readline() or sys.exit())
    verdict = "stored" if "stored" in answer else "refused"
    requests.send_multipart([verdict.encode(), answer[verdict].encode()])
