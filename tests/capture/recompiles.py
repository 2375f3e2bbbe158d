# fmt: off
"""Calls that make compiled code be compiled again, and how many graphs there are after each. They are
run by the package and, to record the counts, by PyTorch: `torch`, `config`, `marks`, `reset` and
`CompileCounter` are given to them. A program appends to the list that it gets."""

from __future__ import annotations

import math

CASES = {}


def case(name):
    return lambda f: CASES.setdefault(name, f)


def counted(fn, **kw):
    c = CompileCounter()
    return torch.compile(fn, backend=c, **kw), c


def sweep(out, f, c, args):
    for a in args:
        f(*a)
        out.append(c.frame_count)


def outcome(name):
    """The counts, and the class of the error that ended it."""
    reset()
    out = []
    try:
        CASES[name](out)
    except Exception as error:
        out.append(type(error).__name__)
    return out


@case("sizes")
def _(o):
    f,c=counted(lambda x: x*2+1); sweep(o,f,c,[(torch.ones(n),) for n in (2,2,3,4,5)]+[(torch.ones(3,3),),(torch.ones(1),),(torch.ones(0),),(torch.ones(7),),(torch.ones(3,5),),(torch.ones(6,6),)])
@case("sizes dynamic")
def _(o):
    f,c=counted(lambda x: x*2+1, dynamic=True); sweep(o,f,c,[(torch.ones(n),) for n in (2,3,4,1,0,9)])
@case("sizes static")
def _(o):
    f,c=counted(lambda x: x*2+1, dynamic=False); sweep(o,f,c,[(torch.ones(n),) for n in range(2,14)])
@case("int")
def _(o):
    f,c=counted(lambda x,k: x*k); sweep(o,f,c,[(torch.ones(2),k) for k in (1,1,2,3,4,0,1,-1,100)])
@case("int from 5")
def _(o):
    f,c=counted(lambda x,k: x*k); sweep(o,f,c,[(torch.ones(2),k) for k in (5,5,6,7,1,0,2)])
@case("int 0 then 1")
def _(o):
    f,c=counted(lambda x,k: x*k); sweep(o,f,c,[(torch.ones(2),k) for k in (0,1,2,3)])
@case("int 5 then 0")
def _(o):
    f,c=counted(lambda x,k: x*k); sweep(o,f,c,[(torch.ones(2),k) for k in (5,0,7,1)])
@case("int counts in a closure")
def _(o):
    held=[0]
    f,c=counted(lambda x: x*held[0])
    for k in range(4):
        held[0]=k; f(torch.ones(2)); o.append(c.frame_count)
@case("sizes rounded")
def _(o):
    f,c=counted(lambda x,m: torch.nn.functional.pad(x,(0,(-x.shape[-1])%m))*math.ceil(x.shape[-1]/m)*math.floor(x.shape[-1]/2))
    sweep(o,f,c,[(torch.ones(2,n),4) for n in (5,6,7,9,8)])
@case("int dynamic=True")
def _(o):
    f,c=counted(lambda x,k: x*k, dynamic=True); sweep(o,f,c,[(torch.ones(2),k) for k in (5,6,1,0,2)])
@case("int dynamic=False")
def _(o):
    f,c=counted(lambda x,k: x*k, dynamic=False); sweep(o,f,c,[(torch.ones(2),k) for k in (5,6,1,0,2)])
@case("float")
def _(o):
    f,c=counted(lambda x,k: x*k); sweep(o,f,c,[(torch.ones(2),k) for k in (5.0,6.5,7.5,5.0)])
@case("float nan")
def _(o):
    f,c=counted(lambda x,k: x*k); sweep(o,f,c,[(torch.ones(2),k) for k in (float('nan'),float('nan'),0.0,-0.0,float('inf'))])
@case("bool")
def _(o):
    f,c=counted(lambda x,k: x*2 if k else x*3); sweep(o,f,c,[(torch.ones(2),k) for k in (True,False,True,1)])
@case("str")
def _(o):
    f,c=counted(lambda x,k: x*len(k)); sweep(o,f,c,[(torch.ones(2),k) for k in ("a","b","a","bb")])
@case("none")
def _(o):
    f,c=counted(lambda x,k: x*2 if k is None else x+k); sweep(o,f,c,[(torch.ones(2),k) for k in (None,torch.ones(2),None)])
@case("requires_grad")
def _(o):
    f,c=counted(lambda x: x*2); sweep(o,f,c,[(torch.ones(2),),(torch.ones(2,requires_grad=True),),(torch.ones(2),)])
@case("dtype")
def _(o):
    f,c=counted(lambda x: x*2); sweep(o,f,c,[(torch.ones(2),),(torch.ones(2,dtype=torch.float64),),(torch.ones(2,dtype=torch.int64),)])
@case("no_grad")
def _(o):
    f,c=counted(lambda x: x*2); f(torch.ones(2)); o.append(c.frame_count)
    with torch.no_grad(): f(torch.ones(2)); o.append(c.frame_count)
    with torch.inference_mode(): f(torch.ones(2)); o.append(c.frame_count)
    with torch.autocast("cpu"): f(torch.ones(2)); o.append(c.frame_count)
    f(torch.ones(2)); o.append(c.frame_count)
@case("stride")
def _(o):
    f,c=counted(lambda x: x*2); sweep(o,f,c,[(torch.ones(4,4),),(torch.ones(4,8)[:,::2],),(torch.ones(4,4).t(),)])
class Cfg: pass
@case("attributes")
def _(o):
    g=Cfg(); g.k=2
    f,c=counted(lambda x,g: x*g.k); f(torch.ones(2),g); o.append(c.frame_count)
    g.other=1; f(torch.ones(2),g); o.append(c.frame_count)
    g.k=3; o.append(f(torch.ones(2),g).tolist()); o.append(c.frame_count)
    g.k=4; o.append(f(torch.ones(2),g).tolist()); o.append(c.frame_count)
    g.k=5; f(torch.ones(2),g); o.append(c.frame_count)
@case("attribute float")
def _(o):
    g=Cfg(); g.k=2.5
    f,c=counted(lambda x,g: x*g.k)
    for k in (2.5,3.5,4.5): g.k=k; f(torch.ones(2),g); o.append(c.frame_count)
SC=2
@case("global")
def _(o):
    global SC
    f,c=counted(lambda x: x*SC); SC=2
    for k in (2,3,4,5): SC=k; f(torch.ones(2)); o.append(c.frame_count)
@case("alias")
def _(o):
    f,c=counted(lambda x,y: x*y); t,u=torch.ones(2),torch.ones(2); sweep(o,f,c,[(t,t),(t,u),(u,u)])
@case("list length")
def _(o):
    f,c=counted(lambda l: sum(l)); sweep(o,f,c,[([torch.ones(2)]*1,),([torch.ones(2),torch.ones(2)],),([torch.ones(2) for _ in range(3)],)])
@case("list of ints")
def _(o):
    f,c=counted(lambda x,l: x*l[0]+l[1]); sweep(o,f,c,[(torch.ones(2),[1,2]),(torch.ones(2),[3,4]),(torch.ones(2),[5,6]),(torch.ones(2),[7,8])])
@case("dict")
def _(o):
    f,c=counted(lambda x,d: x*d["a"]); sweep(o,f,c,[(torch.ones(2),{"a":2}),(torch.ones(2),{"a":2,"b":1}),(torch.ones(2),{"a":3})])
@case("dict iterated")
def _(o):
    f,c=counted(lambda x,d: x*sum(d.values())); sweep(o,f,c,[(torch.ones(2),{"a":2}),(torch.ones(2),{"a":2,"b":1}),(torch.ones(2),{"b":2})])
@case("function identity")
def _(o):
    f,c=counted(lambda x,g: g(x));
    def a(x): return x*2
    def b(x): return x*2
    sweep(o,f,c,[(torch.ones(2),a),(torch.ones(2),b),(torch.ones(2),a)])
@case("closure lambda anew")
def _(o):
    f,c=counted(lambda x,g: g(x))
    for k in (2,3,4): f(torch.ones(2), lambda x: x*k); o.append(c.frame_count)
@case("two dims")
def _(o):
    f,c=counted(lambda x: x.sum(0)); sweep(o,f,c,[(torch.ones(*s),) for s in ((2,3),(4,3),(5,3),(5,4),(6,7),(1,7),(6,1))])
@case("two tensors same size")
def _(o):
    f,c=counted(lambda x,y: x+y); sweep(o,f,c,[(torch.ones(n),torch.ones(n)) for n in (2,3,4,5)])
@case("two tensors broadcast")
def _(o):
    f,c=counted(lambda x,y: x+y); sweep(o,f,c,[(torch.ones(2),torch.ones(2)),(torch.ones(3),torch.ones(3)),(torch.ones(4),torch.ones(1)),(torch.ones(5),torch.ones(1))])
@case("branch on size")
def _(o):
    f,c=counted(lambda x: x*2 if x.shape[0]>4 else x*3); sweep(o,f,c,[(torch.ones(n),) for n in (2,3,5,6,3,4,9)])
@case("range of size")
def _(o):
    def g(x):
        y=x
        for i in range(x.shape[0]): y=y+i
        return y
    f,c=counted(g); sweep(o,f,c,[(torch.ones(n),) for n in (2,3,4,5)])
@case("size mul")
def _(o):
    f,c=counted(lambda x: x*x.shape[0]+x.numel()); sweep(o,f,c,[(torch.ones(n,2),) for n in (2,3,4,5)])
@case("view size")
def _(o):
    f,c=counted(lambda x: x.view(-1,2)*2); sweep(o,f,c,[(torch.ones(n),) for n in (4,6,8,10)])
@case("mark_dynamic")
def _(o):
    f,c=counted(lambda x: x*2)
    for n in (3,4,5,2,1):
        x=torch.ones(n)
        if n>2: marks.mark_dynamic(x,0)
        f(x); o.append(c.frame_count)
@case("mark_dynamic specialised")
def _(o):
    f,c=counted(lambda x: x*2 if x.shape[0]==3 else x)
    x=torch.ones(3); marks.mark_dynamic(x,0); f(x); o.append(c.frame_count)
@case("maybe_mark_dynamic specialised")
def _(o):
    f,c=counted(lambda x: x*2 if x.shape[0]==3 else x)
    x=torch.ones(3); marks.maybe_mark_dynamic(x,0); f(x); o.append(c.frame_count)
    x=torch.ones(4); marks.maybe_mark_dynamic(x,0); f(x); o.append(c.frame_count)
@case("maybe_mark_dynamic")
def _(o):
    f,c=counted(lambda x: x*2)
    for n in (3,4,5):
        x=torch.ones(n); marks.maybe_mark_dynamic(x,0); f(x); o.append(c.frame_count)
@case("mark_dynamic min max")
def _(o):
    f,c=counted(lambda x: x*2)
    for n in (5,6,12,3):
        x=torch.ones(n)
        if n==5: marks.mark_dynamic(x,0,min=4,max=10)
        f(x); o.append(c.frame_count)
@case("mark_dynamic out of range")
def _(o):
    f,c=counted(lambda x: x*2)
    x=torch.ones(12); marks.mark_dynamic(x,0,min=4,max=10); f(x); o.append(c.frame_count)
@case("mark_dynamic of one")
def _(o):
    f,c=counted(lambda x: x*2)
    x=torch.ones(1); marks.mark_dynamic(x,0); f(x); o.append(c.frame_count); f(torch.ones(2)); o.append(c.frame_count)
@case("mark_dynamic dynamic=False")
def _(o):
    f,c=counted(lambda x: x*2, dynamic=False)
    for n in (3,4,5):
        x=torch.ones(n); marks.mark_dynamic(x,0); f(x); o.append(c.frame_count)
@case("mark_static")
def _(o):
    f,c=counted(lambda x: x*2)
    for n in (3,4,5,6):
        x=torch.ones(n); marks.mark_static(x,0); f(x); o.append(c.frame_count)
@case("mark_static dynamic=True")
def _(o):
    f,c=counted(lambda x: x*2, dynamic=True)
    for n in (3,4,5):
        x=torch.ones(n,4); marks.mark_static(x,0); f(x); o.append(c.frame_count)
    for n in (5,6,7):
        x=torch.ones(5,n); marks.mark_static(x,0); f(x); o.append(c.frame_count)
@case("mark_dynamic twice dims")
def _(o):
    f,c=counted(lambda x: x.sum(1))
    for s in ((3,4),(5,6),(7,8),(2,9)):
        x=torch.ones(*s); marks.mark_dynamic(x,[0,1]); f(x); o.append(c.frame_count)
@case("limit")
def _(o):
    f,c=counted(lambda x,k: x*len(k)); sweep(o,f,c,[(torch.ones(2),"a"*k) for k in range(12)])
@case("limit fullgraph")
def _(o):
    f,c=counted(lambda x,k: x*len(k), fullgraph=True); sweep(o,f,c,[(torch.ones(2),"a"*k) for k in range(12)])
@case("limit config")
def _(o):
    with config.patch(recompile_limit=3):
        f,c=counted(lambda x,k: x*len(k)); sweep(o,f,c,[(torch.ones(2),"a"*k) for k in range(6)])
@case("limit config cache_size_limit")
def _(o):
    with config.patch(cache_size_limit=3):
        f,c=counted(lambda x,k: x*len(k)); sweep(o,f,c,[(torch.ones(2),"a"*k) for k in range(6)])
@case("accumulated limit")
def _(o):
    with config.patch(accumulated_recompile_limit=4, recompile_limit=8):
        f,c=counted(lambda x,k: x*len(k)); sweep(o,f,c,[(torch.ones(2),"a"*k) for k in range(8)])
@case("accumulated limit over modules")
def _(o):
    class M(torch.nn.Module):
        def forward(self,x): return x*2
    with config.patch(accumulated_recompile_limit=4, recompile_limit=8):
        c=CompileCounter()
        for k in range(7):
            torch.compile(M(), backend=c)(torch.ones(2)); o.append(c.frame_count)
@case("fail on recompile limit hit")
def _(o):
    with config.patch(fail_on_recompile_limit_hit=True, recompile_limit=2):
        f,c=counted(lambda x,k: x*len(k)); sweep(o,f,c,[(torch.ones(2),"a"*k) for k in range(6)])
@case("error_on_recompile")
def _(o):
    with config.patch(error_on_recompile=True):
        f,c=counted(lambda x,k: x*len(k)); sweep(o,f,c,[(torch.ones(2),"a"*k) for k in range(3)])
@case("automatic_dynamic_shapes off")
def _(o):
    with config.patch(automatic_dynamic_shapes=False):
        f,c=counted(lambda x: x*2); sweep(o,f,c,[(torch.ones(n),) for n in (2,3,4,5)])
@case("assume_static off")
def _(o):
    with config.patch(assume_static_by_default=False):
        f,c=counted(lambda x: x*2); sweep(o,f,c,[(torch.ones(n),) for n in (2,3,4,5)])
@case("specialize_int")
def _(o):
    with config.patch(specialize_int=True):
        f,c=counted(lambda x,k: x*k); sweep(o,f,c,[(torch.ones(2),n) for n in (2,3,4,5)])
@case("module param swap")
def _(o):
    m=torch.nn.Linear(2,2); c=CompileCounter(); f=torch.compile(m,backend=c)
    f(torch.ones(1,2)); o.append(c.frame_count)
    m.weight=torch.nn.Parameter(torch.ones(2,2)); f(torch.ones(1,2)); o.append(c.frame_count)
    m.weight.requires_grad_(False); f(torch.ones(1,2)); o.append(c.frame_count)
    m.eval(); f(torch.ones(1,2)); o.append(c.frame_count)
    m.train(); f(torch.ones(1,2)); o.append(c.frame_count)
@case("module batch")
def _(o):
    m=torch.nn.Sequential(torch.nn.Linear(2,3),torch.nn.ReLU()); c=CompileCounter(); f=torch.compile(m,backend=c)
    for n in (2,3,4,5,1,2): f(torch.ones(n,2)); o.append(c.frame_count)
@case("two modules one class")
def _(o):
    class M(torch.nn.Module):
        def __init__(s,k): super().__init__(); s.k=k
        def forward(s,x): return x*s.k
    c=CompileCounter()
    for k in (2,2,3,4): torch.compile(M(k),backend=c)(torch.ones(2)); o.append(c.frame_count)
@case("default dtype")
def _(o):
    f,c=counted(lambda x: x+torch.ones(2)); f(torch.ones(2)); o.append(c.frame_count)
    torch.set_default_dtype(torch.float64)
    try: f(torch.ones(2)); o.append(c.frame_count)
    finally: torch.set_default_dtype(torch.float32)
@case("deterministic")
def _(o):
    f,c=counted(lambda x: x*2); f(torch.ones(2)); o.append(c.frame_count)
    torch.use_deterministic_algorithms(True)
    try: f(torch.ones(2)); o.append(c.frame_count)
    finally: torch.use_deterministic_algorithms(False)
@case("num threads")
def _(o):
    f,c=counted(lambda x: x*2); f(torch.ones(2)); o.append(c.frame_count)
    n=torch.get_num_threads(); torch.set_num_threads(3)
    try: f(torch.ones(2)); o.append(c.frame_count)
    finally: torch.set_num_threads(n)
@case("int in shape")
def _(o):
    f,c=counted(lambda x,n: x.reshape(n,-1)*n); sweep(o,f,c,[(torch.ones(24),n) for n in (2,3,4,6)])
@case("int in torch.zeros")
def _(o):
    f,c=counted(lambda x,n: x.sum()+torch.zeros(n)); sweep(o,f,c,[(torch.ones(24),n) for n in (2,3,4,6)])
@case("int as range")
def _(o):
    def g(x,n):
        for _ in range(n): x=x+1
        return x
    f,c=counted(g); sweep(o,f,c,[(torch.ones(2),n) for n in (2,3,4,5)])
@case("int compare")
def _(o):
    f,c=counted(lambda x,n: x*n if n>4 else x+n); sweep(o,f,c,[(torch.ones(2),n) for n in (2,3,5,6,4,3)])
@case("tuple int")
def _(o):
    f,c=counted(lambda x,s: x.view(s)*2); sweep(o,f,c,[(torch.ones(24),s) for s in ((2,12),(3,8),(4,6),(6,4))])
@case("reset")
def _(o):
    f,c=counted(lambda x: x*2); f(torch.ones(2)); o.append(c.frame_count); reset(); f(torch.ones(2)); o.append(c.frame_count)
@case("kwargs")
def _(o):
    f,c=counted(lambda x,**k: x*k.get("a",1)); f(torch.ones(2)); o.append(c.frame_count)
    for kw in ({"a":2},{"a":3},{"a":4},{"b":1},{"a":5,"b":2}): f(torch.ones(2),**kw); o.append(c.frame_count)
@case("size one and back")
def _(o):
    f,c=counted(lambda x: x*2); sweep(o,f,c,[(torch.ones(n),) for n in (1,2,3,4,1)])
@case("size seen twice apart")
def _(o):
    f,c=counted(lambda x,y: x.sum()+y.sum()); sweep(o,f,c,[(torch.ones(a),torch.ones(b)) for a,b in ((2,3),(4,3),(5,3),(5,6),(7,8))])
@case("square")
def _(o):
    f,c=counted(lambda x: x@x); sweep(o,f,c,[(torch.ones(n,n),) for n in (2,3,4,5)])
@case("nested cfg list attr")
def _(o):
    g=Cfg(); g.l=[1,2]; f,c=counted(lambda x,g: x*g.l[1])
    for k in (2,3,4): g.l[1]=k; f(torch.ones(2),g); o.append(c.frame_count)
    g.l.append(4); f(torch.ones(2),g); o.append(c.frame_count)
@case("module int attribute")
def _(o):
    class M(torch.nn.Module):
        def __init__(s): super().__init__(); s.k=2
        def forward(s,x): return x*s.k
    m=M(); c=CompileCounter(); f=torch.compile(m,backend=c)
    for k in (2,3,4,5): m.k=k; f(torch.ones(2)); o.append(c.frame_count)
