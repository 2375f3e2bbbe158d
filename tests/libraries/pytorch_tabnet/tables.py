"""Pretraining, training, explaining, saving and loading of networks for tables."""

import numpy as np
import torch
from pytorch_tabnet.pretraining import TabNetPretrainer
from pytorch_tabnet.tab_model import TabNetClassifier, TabNetRegressor

from showing import show

rng = np.random.RandomState(0)
X = rng.randn(96, 6).astype("float32")
y = (X[:, 0] + X[:, 1] > 0).astype(int)
p = TabNetPretrainer(seed=0, verbose=0, n_d=4, n_a=4, n_steps=2, device_name="cpu")
p.fit(
    X[:64],
    eval_set=[X[64:]],
    max_epochs=2,
    batch_size=32,
    virtual_batch_size=16,
    pretraining_ratio=0.5,
)
c = TabNetClassifier(
    seed=0,
    verbose=0,
    n_d=4,
    n_a=4,
    n_steps=2,
    device_name="cpu",
    scheduler_fn=torch.optim.lr_scheduler.StepLR,
    scheduler_params={"step_size": 1, "gamma": 0.9},
)
c.fit(
    X[:64],
    y[:64],
    eval_set=[(X[64:], y[64:])],
    max_epochs=3,
    batch_size=32,
    virtual_batch_size=16,
    from_unsupervised=p,
    eval_metric=["auc", "accuracy"],
)
show(
    hist=[float(v) for v in c.history["loss"]],
    auc=[float(v) for v in c.history["val_0_auc"]],
    imp=torch.tensor(c.feature_importances_),
    proba=torch.tensor(c.predict_proba(X[:4])),
)
ex, masks = c.explain(X[:5])
show(ex=torch.tensor(ex), m0=torch.tensor(masks[0]))
import tempfile

with tempfile.TemporaryDirectory() as d:
    f = c.save_model(d + "/m")
    c2 = TabNetClassifier(device_name="cpu")
    c2.load_model(f)
    show(again=torch.tensor(c2.predict_proba(X[:4])))
r = TabNetRegressor(
    seed=0,
    verbose=0,
    n_d=4,
    n_a=4,
    n_steps=2,
    mask_type="entmax",
    cat_idxs=[5],
    cat_dims=[4],
    cat_emb_dim=2,
    device_name="cpu",
)
Xc = X.copy()
Xc[:, 5] = rng.randint(0, 4, 96)
r.fit(Xc, X[:, :1], max_epochs=3, batch_size=32, virtual_batch_size=16, drop_last=False)
show(r=torch.tensor(r.predict(Xc[:5])))
