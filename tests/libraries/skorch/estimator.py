"""skorch: networks as scikit-learn's estimators, in a pipeline and a grid search."""

import pickle

import numpy
import torch
from showing import show
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EpochScoring, LRScheduler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


class Net(torch.nn.Module):
    def __init__(self, width=8, out=2):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(5, width), torch.nn.ReLU(), torch.nn.Linear(width, out)
        )

    def forward(self, x):
        return self.layers(x)


random = numpy.random.RandomState(0)
x = random.randn(60, 5).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("int64")
torch.manual_seed(0)
net = NeuralNetClassifier(
    Net, criterion=torch.nn.CrossEntropyLoss, max_epochs=4, lr=0.2, batch_size=20, verbose=0,
    callbacks=[EpochScoring("roc_auc", lower_is_better=False), LRScheduler("StepLR", step_size=2)],
)  # fmt: skip
net.fit(x, y)
show(
    losses=net.history[:, "train_loss"],
    valid=net.history[:, "valid_loss"],
    auc=net.history[:, "roc_auc"],
)
show(chances=torch.from_numpy(net.predict_proba(x)), score=net.score(x, y))
show(same=bool((pickle.loads(pickle.dumps(net)).predict(x) == net.predict(x)).all()))
torch.manual_seed(0)
pipe = make_pipeline(
    StandardScaler(),
    NeuralNetRegressor(Net, module__out=1, max_epochs=3, lr=0.05, verbose=0, train_split=None),
)
pipe.fit(x, x[:, :1] * 2)
show(regressed=torch.from_numpy(pipe.predict(x)))
torch.manual_seed(0)
search = GridSearchCV(
    net.set_params(callbacks=None),
    {"lr": [0.02, 0.3], "module__width": [4, 8]},
    cv=2,
    scoring="accuracy",
)
search.fit(x, y)
show(best=search.best_params_, score=search.best_score_)
