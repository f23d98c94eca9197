# Functions that the jobs of rq_jobs.py call.
def send(to, n=0): return to
def boom(): raise ValueError("smtp refused")
