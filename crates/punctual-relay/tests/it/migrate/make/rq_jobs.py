# Writes jobs of RQ in every state. pip install rq; PYTHONPATH=. python rq_jobs.py PORT
import sys, datetime, redis
from rq import Queue, Retry, SimpleWorker
import shopjobs
r = redis.Redis(port=int(sys.argv[1]), db=3)
q = Queue("mail", connection=r)
q.enqueue(shopjobs.boom, job_id="boom")
SimpleWorker([q], connection=r).work(burst=True, logging_level="ERROR")
q.enqueue(shopjobs.send, "ann", n=1, job_id="one")
q.enqueue(shopjobs.send, "bob", job_id="two", retry=Retry(max=3, interval=[10, 60]), job_timeout=77, meta={"a": 1}, description="mail to bob")
q.enqueue_at(datetime.datetime(2099, 6, 1, tzinfo=datetime.timezone.utc), shopjobs.send, "cat", job_id="late")
q.enqueue(shopjobs.send, "dep", depends_on="one", job_id="dependent")
