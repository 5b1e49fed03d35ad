import os, time, threading, statistics, subprocess, sys, asyncio
import pytest
from django.db import connection
from serverless.models import Invocation
from serverless.queue.gateway import Queue
from serverless.queue.names import *
from tests.factories.serverless import *
from serverless.queue.messages import *
pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

def test_bench(queue, queue_server, cluster, settings, capfd):
    from django.conf import settings as ds
    db = ds.DATABASES["default"]; name = connection.settings_dict["NAME"]
    url = os.environ["DATABASE_URL"].rpartition("/")[0] + "/" + name
    env = {**os.environ, "DATABASE_URL": url, "NATS_URL": queue_server.url, "GPUPLATFORM_NATS_SEED": queue_server.account.seed, "GPUPLATFORM_LOG_LEVEL":"WARNING"}
    # Two timestamps: accept end -> message seen by a subscriber on the stream subject
    function = function_row(maxWorkers=50, concurrency=20)
    w = Worker(queue, function)
    p = subprocess.Popen(["taskset","-c","1",sys.executable,"manage.py","run_result_store"], env=env)
    seen = {}
    async def listen(js):
        async def cb(m): seen[m.headers["X-Invocation-ID"]] = time.perf_counter()
        await queue._client.subscribe("gpu.invoke.>", cb=cb)
    queue._call(listen)
    accept(function)
    while not seen: time.sleep(0.01)
    time.sleep(1)
    lat=[]; acc=[]
    for i in range(300):
        t0=time.perf_counter(); row=accept(function, "x"*200); t1=time.perf_counter()
        while row.invocation_id not in seen: time.sleep(0.0005)
        acc.append((t1-t0)*1e3); lat.append((seen[row.invocation_id]-t1)*1e3)
        time.sleep(0.02)
    q=lambda x,p: sorted(x)[int(len(x)*p)]
    with capfd.disabled():
        print(f"\naccept p50 {q(acc,.5):.1f} p99 {q(acc,.99):.1f} ms; accepted->in stream p50 {q(lat,.5):.1f} p90 {q(lat,.9):.1f} p99 {q(lat,.99):.1f} ms")
    # throughput: stop process, prefill outbox, worker thread in this process
    p.terminate(); p.wait()
    n=3000
    from serverless.services.invocations import _row
    from serverless.core.requests import InvocationCreate
    asked=InvocationCreate.parse({"requestID":function.request_id,"payload":"y"*500})
    base=Invocation.objects.count()
    Invocation.objects.bulk_create([_row(function, asked, "0"*64) for _ in range(n)])
    def work():
        while not stop.is_set():
            got=w.take(100, seconds=0.5)
            if not got: continue
            reps=[]
            for r in got: reps += [w.started(r), w.finished(r)]
            async def pub(js):
                await asyncio.gather(*(js.publish(result_subject("default",function.pk), r.encode(), headers={"Nats-Msg-Id":r.message_id}) for r in reps))
            queue._call(pub); queue.acknowledge(got)
    stop=threading.Event(); t=threading.Thread(target=work); t.start()
    while Invocation.objects.filter(state="Succeeded").count() != 0: break
    p = subprocess.Popen(["taskset","-c","1",sys.executable,"manage.py","run_result_store"], env=env)
    while not Invocation.objects.filter(state="Succeeded").exists(): time.sleep(0.02)
    t0=time.perf_counter(); s0=Invocation.objects.filter(state="Succeeded").count()
    c0=cpu(p.pid)
    while Invocation.objects.filter(state="Succeeded").count() < n: time.sleep(0.05)
    t1=time.perf_counter(); c1=cpu(p.pid); s1=Invocation.objects.filter(state="Succeeded").count()
    with capfd.disabled():
        print(f"{(s1-s0)/(t1-t0):.0f}/s, cpu of run_result_store {(c1-c0)/(s1-s0)*1e3:.2f} ms each, {(c1-c0)/(t1-t0)*100:.0f}% of a core, load {os.getloadavg()}")
    stop.set(); t.join(); p.terminate(); assert p.wait(15)==0
def cpu(pid):
    f=open(f"/proc/{pid}/stat").read().rpartition(")")[2].split(); return (int(f[11])+int(f[12]))/100
