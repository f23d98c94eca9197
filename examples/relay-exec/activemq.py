"""A source of `punctual relay exec`: a queue of ActiveMQ over STOMP; stored messages are acknowledged.

    punctual relay exec --source 'python3 activemq.py 127.0.0.1:61613 /queue/mail' --into mail --name activemq
"""
import json
import socket
import sys

host, port = sys.argv[1].rsplit(":", 1)
link = socket.create_connection((host, int(port)))
stream = link.makefile("rb")


def send(command, **headers):
    lines = [command, *(f"{name.replace('_', '-')}:{value}" for name, value in headers.items())]
    link.sendall("\n".join(lines).encode() + b"\n\n\0")


def read():
    lines = []
    while (line := stream.readline()) not in (b"\n", b"\r\n") or not lines:
        lines += [line.decode().rstrip("\r\n")] if line.strip() else []
        line or sys.exit("the broker ended the connection")
    headers = dict(line.split(":", 1) for line in reversed(lines[1:]))
    body = stream.read(int(headers.get("content-length", 0)))
    while (byte := stream.read(1)) != b"\0":
        body += byte or sys.exit("the broker ended the connection")
    return lines[0], headers, body


def payload_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


send("CONNECT", accept_version="1.2", host=host)
send("SUBSCRIBE", id=0, destination=sys.argv[2], ack="client-individual", **{"activemq.prefetchSize": 1})
while True:
    command, headers, body = read()
    if command == "ERROR":
        sys.exit(f"error: {headers.get('message')}")
    if command == "MESSAGE":
        job = {"payload": payload_of(body.decode("utf-8", "replace")), "delay": headers.get("punctual-delay", "0s")}
        print(json.dumps({"name": headers["message-id"], "job": job}), flush=True)
        sys.stdin.readline() or sys.exit()  # the relay is gone: the broker delivers it again
        send("ACK", id=headers["ack"])  # stored, or a dead job with the reason
