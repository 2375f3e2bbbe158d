"""Survival models: Cox-CC, Cox-time, DeepHit, logistic hazard; losses, curves, scores."""

import numpy as np
import torch
import torchtuples as tt
from pycox.models import (
    MTLR,
    PMF,
    CoxPH,
    DeepHitSingle,
    LogisticHazard,
    PCHazard,
)

from showing import show

rng = np.random.RandomState(0)
x = rng.randn(64, 4).astype("float32")
dur = rng.exponential(np.exp(x[:, 0])).astype("float32") + 0.1
ev = (rng.rand(64) < 0.7).astype("float32")
for cls in (LogisticHazard, PMF, MTLR, DeepHitSingle, PCHazard):
    torch.manual_seed(0)
    np.random.seed(0)
    lab = cls.label_transform(6)
    y = lab.fit_transform(dur, ev)
    net = tt.practical.MLPVanilla(4, [8], lab.out_features, batch_norm=True, dropout=0.0)
    opt = tt.optim.Adam(0.02)
    m = (
        cls(net, opt, duration_index=lab.cuts)
        if cls is not DeepHitSingle
        else cls(net, opt, alpha=0.2, sigma=0.1, duration_index=lab.cuts)
    )
    log = m.fit(x, y, 16, 3, verbose=False, shuffle=False)
    show(
        **{
            cls.__name__: list(log.to_pandas()["train_loss"]),
            cls.__name__ + "_surv": torch.as_tensor(m.predict_surv(x[:3])),
        }
    )
torch.manual_seed(0)
np.random.seed(0)
net = tt.practical.MLPVanilla(4, [8], 1, True, 0.0, output_bias=False)
m = CoxPH(net, tt.optim.AdamWR(0.02))
log = m.fit(x, (dur, ev), 16, 3, verbose=False, shuffle=False)
m.compute_baseline_hazards(x, (dur, ev))
show(cox=list(log.to_pandas()["train_loss"]), surv=m.predict_surv_df(x[:2]).values[::10].tolist())
