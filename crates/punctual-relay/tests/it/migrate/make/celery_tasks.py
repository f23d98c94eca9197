# Writes tasks of Celery; one is held. pip install celery redis; python celery_tasks.py PORT
import sys, datetime
from celery import Celery, chord, group, chain
port = sys.argv[1]
app = Celery("shop", broker=f"redis://127.0.0.1:{port}/2")
app.conf.broker_transport_options = {"queue_order_strategy": "priority"}
@app.task(name="shop.send")
def send(to, n=0): pass
@app.task(name="shop.sum")
def total(xs): pass
send.apply_async(("ann",), {"n": 1}, task_id="11111111-1111-1111-1111-111111111111")
send.apply_async(("bob",), countdown=30*86400, task_id="22222222-2222-2222-2222-222222222222")
send.apply_async(("cat",), expires=datetime.datetime(2099,1,1,tzinfo=datetime.timezone.utc), retries=2, task_id="33333333-3333-3333-3333-333333333333")
send.apply_async(("dan",), priority=6, task_id="44444444-4444-4444-4444-444444444444")
send.apply_async(("eve", b"\xff\x00"), serializer="pickle", task_id="55555555-5555-5555-5555-555555555555")
send.apply_async(("fay",), eta=datetime.datetime(2099,6,1,12,0,0,123456), task_id="66666666-6666-6666-6666-666666666666")
chain(send.si("a"), send.si("b")).apply_async(task_id="77777777-7777-7777-7777-777777777777")
group(send.s("g1"), send.s("g2")).apply_async()
# What a worker holds: fetched and not acknowledged.
with app.connection_for_read() as c:
    ch = c.default_channel
    q = app.amqp.queues["celery"].bind(ch)
    m = q.get(no_ack=False)
    print("holds", m.properties["correlation_id"], file=sys.stderr)
    import os
    os._exit(0)
