"""kornia: filters, colours, geometry, morphology, features and losses."""

import kornia
import torch
from showing import show

torch.manual_seed(0)
x = torch.rand(2, 3, 24, 28, requires_grad=True)
gray = kornia.color.rgb_to_grayscale(x)
F = kornia.filters
show(gray=gray, hsv=kornia.color.rgb_to_hsv(x), lab=kornia.color.rgb_to_lab(x))
show(
    blur=F.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), sobel=F.sobel(x), median=F.median_blur(x, (3, 3))
)
show(laplace=F.laplacian(x, 3), sharp=F.unsharp_mask(x, (3, 3), (1.0, 1.0)), canny=F.canny(gray)[0])
show(bilateral=F.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)))
matrix = torch.tensor([[[0.9, 0.1, 2.0], [-0.1, 1.1, 1.0], [0.001, 0.002, 1.0]]]).expand(2, 3, 3)
G = kornia.geometry
show(
    warped=G.transform.warp_perspective(x, matrix, (24, 28)),
    turned=G.transform.rotate(x, torch.tensor([20.0, -30.0])),
)
show(resized=G.transform.resize(x, (12, 14)), pyramid=G.transform.pyrdown(x))
show(angles=G.conversions.axis_angle_to_rotation_matrix(torch.rand(3, 3)))
one = torch.tensor([[[0.0, 0], [10, 0], [10, 10], [0, 10]]])
show(homography=G.get_perspective_transform(one, one + torch.rand(1, 4, 2)))
kernel = torch.ones(3, 3)
show(dilated=kornia.morphology.dilation(x, kernel), eroded=kornia.morphology.erosion(x, kernel))
show(harris=kornia.feature.harris_response(gray), gftt=kornia.feature.gftt_response(gray))
show(equal=kornia.enhance.equalize(x.detach()), gamma=kornia.enhance.adjust_gamma(x, 1.4))
show(ssim=kornia.losses.ssim_loss(x, x.flip(-1), 5), total=kornia.losses.total_variation(x))
show(dice=kornia.losses.dice_loss(torch.randn(2, 4, 6, 6), torch.randint(0, 4, (2, 6, 6))))
show(
    focal=kornia.losses.focal_loss(
        torch.randn(2, 4, 6, 6), torch.randint(0, 4, (2, 6, 6)), 0.5, reduction="mean"
    )
)
F.gaussian_blur2d(x, (5, 5), (1.5, 1.5)).square().sum().backward()
show(grad=x.grad)
