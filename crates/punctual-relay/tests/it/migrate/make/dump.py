# Dumps a Redis database as commands, one JSON array a line; bytes that are no
# text are {"base64": ..}.
import base64, json, sys, redis
port, db = int(sys.argv[1]), int(sys.argv[2])
r = redis.Redis(port=port, db=db)
def t(b):
    try:
        s = b.decode()
        return s
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(b).decode()}
for key in sorted(r.scan_iter(count=1000)):
    kind = r.type(key).decode()
    out = None
    if kind == "list": out = ["RPUSH", t(key)] + [t(v) for v in r.lrange(key, 0, -1)]
    elif kind == "hash":
        out = ["HSET", t(key)]
        for f, v in sorted(r.hgetall(key).items()): out += [t(f), t(v)]
    elif kind == "zset":
        out = ["ZADD", t(key)]
        for m, s in r.zrange(key, 0, -1, withscores=True): out += [repr(s) if s != int(s) else str(int(s)), t(m)]
    elif kind == "set": out = ["SADD", t(key)] + sorted(t(v) for v in r.smembers(key))
    elif kind == "string": out = ["SET", t(key), t(r.get(key))]
    elif kind == "stream": continue
    print(json.dumps(out, ensure_ascii=False))
