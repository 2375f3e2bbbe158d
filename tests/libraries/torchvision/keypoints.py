"""Detectors and videos: RetinaNet, FCOS, keypoints, features by name, 3-D networks, optical flow."""

import torch
import torchvision as tv
from showing import gradients, show
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

torch.manual_seed(0)
net = tv.models.resnet18(num_classes=7).eval()
train, evaluated = get_graph_node_names(net)
show(nodes=[len(train), len(evaluated)])
parts = create_feature_extractor(net, {"layer1": "low", "layer3.1.add": "middle", "flatten": "top"})
picture = torch.rand(2, 3, 64, 64)
show(**parts(picture))

video = tv.models.video.r3d_18(num_classes=4).train()
out = video(torch.rand(2, 3, 4, 32, 32))
out.square().mean().backward()
show(video=out, video_gradients=gradients(video))

torch.manual_seed(1)
found = tv.models.detection.fcos_resnet50_fpn(
    weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=64
).train()
boxes = {"boxes": torch.tensor([[4.0, 6.0, 30.0, 40.0]]), "labels": torch.tensor([1])}
show(fcos=found([picture[0]], [boxes]))

torch.manual_seed(2)
net = tv.models.mobilenet_v3_small(num_classes=5).eval()
with torch.no_grad():
    show(mobile=net(picture))
show(grid=tv.utils.make_grid(picture, nrow=1, padding=1, normalize=True))
drawn = tv.utils.draw_bounding_boxes(
    (picture[0] * 255).to(torch.uint8), torch.tensor([[3, 3, 20, 30]]), colors="red", width=2
)
show(drawn=drawn)
masks = torch.zeros(1, 64, 64, dtype=torch.bool)
masks[:, 10:20, 10:30] = True
show(masked=tv.utils.draw_segmentation_masks((picture[0] * 255).to(torch.uint8), masks, alpha=0.5))
