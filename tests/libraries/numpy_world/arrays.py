"""pandas, scikit-learn, SciPy, Matplotlib and the Array API over tensors."""

import io

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.optimize
import scipy.sparse
import torch
from showing import show
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

torch.manual_seed(0)
x, weights = torch.randn(60, 4), torch.tensor([1.0, -2.0, 0.5, 3.0])
y = x @ weights + 0.1 * torch.randn(60)
frame = pd.DataFrame({"y": y, "group": (y > 0).int(), "first": x[:, 0]})
show(means=torch.tensor(frame.groupby("group").mean().to_numpy()))
show(series=torch.as_tensor(pd.Series(y).rolling(5).mean().dropna().to_numpy()))
show(ridge=torch.from_numpy(Ridge().fit(x, y).coef_))
show(scaled=torch.from_numpy(StandardScaler().fit_transform(x)))
left, right, _, labels = train_test_split(x, y, test_size=0.25, random_state=0)
show(kinds=[type(left).__name__, list(left.shape), type(labels).__name__])
forest = RandomForestClassifier(20, random_state=0).fit(x, y > 0)
show(score=roc_auc_score(y > 0, forest.predict_proba(x)[:, 1]))
show(clusters=sorted(np.bincount(KMeans(3, n_init=2, random_state=0).fit(x).labels_).tolist()))


def loss(point):
    at = torch.tensor(point, requires_grad=True)
    value = ((at - torch.arange(3.0, dtype=torch.float64)) ** 4).sum()
    value.backward()
    return value.item(), at.grad.numpy()


show(minimum=torch.from_numpy(scipy.optimize.minimize(loss, np.ones(3), jac=True).x).round())
matrix = scipy.sparse.csr_matrix(np.eye(3) * 2)
sparse = torch.sparse_csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape)
show(sparse=(sparse @ torch.ones(3, 1, dtype=torch.float64)).reshape(-1))
figure, axes = plt.subplots(1, 3)
axes[0].plot(x[:, 0], y, "o")
axes[1].imshow(torch.rand(5, 5, requires_grad=True).detach())
axes[2].hist(y, bins=7)
picture = io.BytesIO()
figure.savefig(picture)
show(drawn=len(picture.getvalue()) > 1000, limits=list(axes[0].get_xlim()))
show(
    both=[
        type(np.add(x.numpy(), 1)).__name__,
        type(np.sum(x.numpy())).__name__,
        np.asarray(x).dtype,
    ]
)
show(stacked=np.stack([x[0], x[1]]).sum(), clipped=x[0].clip(-1, 1))
show(shared=torch.from_dlpack(np.arange(3)), back=np.from_dlpack(torch.arange(3)).tolist())
show(
    order=np.argsort(y.numpy())[:5],
    found=float(np.linalg.norm(x)),
    scalar=float(np.float64(2) * y[0]),
)
show(
    mixed=[
        type(np.float32(2) * torch.ones(2)).__name__,
        type(torch.ones(2) * np.float32(2)).__name__,
    ]
)
