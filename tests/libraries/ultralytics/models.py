"""Detection, segmentation, classification and poses: outputs, a loss and its gradients."""

import os

import torch

os.environ["YOLO_OFFLINE"] = "1"

from ultralytics.nn.tasks import (
    ClassificationModel,
    DetectionModel,
    PoseModel,
    SegmentationModel,
)
from ultralytics.utils import DEFAULT_CFG

from showing import gradients, show

for cfg, cls in (
    ("yolov8n.yaml", DetectionModel),
    ("yolo11n-seg.yaml", SegmentationModel),
    ("yolov8n-cls.yaml", ClassificationModel),
    ("yolo11n-pose.yaml", PoseModel),
):
    torch.manual_seed(0)
    m = (
        cls(cfg, nc=3, verbose=False)
        if cls is not PoseModel
        else cls(cfg, nc=1, data_kpt_shape=(5, 3), verbose=False)
    )
    x = torch.rand(2, 3, 64, 64)
    m.eval()
    with torch.no_grad():
        o = m(x)
    o = o[0] if isinstance(o, (tuple, list)) else o
    show(
        **{cfg: o if isinstance(o, torch.Tensor) else [t for t in o if isinstance(t, torch.Tensor)]}
    )
    m.train()
    if cls is DetectionModel:
        m.args = DEFAULT_CFG
        batch = {
            "img": x,
            "cls": torch.tensor([[0.0], [1.0], [2.0]]),
            "bboxes": torch.tensor(
                [[0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.2, 0.5], [0.6, 0.6, 0.5, 0.3]]
            ),
            "batch_idx": torch.tensor([0.0, 0.0, 1.0]),
        }
        loss, items = m(batch)
        loss.sum().backward()
        show(loss=loss, items=items, g=gradients(m))
m = DetectionModel("yolov8n.yaml", nc=3, verbose=False)
m.fuse(verbose=False)
m.eval()
show(params=sum(p.numel() for p in m.parameters()))
from ultralytics.utils.nms import non_max_suppression

torch.manual_seed(1)
p = torch.rand(1, 7, 30) * torch.tensor([64, 64, 30, 30, 1, 1, 1.0])[:, None]
show(nms=non_max_suppression(p, 0.3, 0.5)[0])
