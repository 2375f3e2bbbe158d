"""Rotations in every form: conversions, averages, interpolation, fitting, and gradients."""

import torch

import roma
from showing import show

torch.manual_seed(0)
vector = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
matrix = roma.rotvec_to_rotmat(vector)
quat = roma.rotmat_to_unitquat(matrix)
show(matrix=matrix, quat=quat, back=roma.unitquat_to_rotvec(quat))
show(euler=roma.rotmat_to_euler("xyz", matrix, degrees=True))
show(sixd=roma.special_gramschmidt(torch.randn(4, 3, 2)))
loss = roma.rotmat_geodesic_distance(matrix[:-1], matrix[1:]).square().sum()
loss.backward()
show(loss=loss, grad=vector.grad)

noisy = torch.randn(4, 3, 3, requires_grad=True)
nearest = roma.special_procrustes(noisy)
(nearest * torch.arange(9.0).reshape(3, 3)).sum().backward()
show(nearest=nearest, nearest_grad=noisy.grad)
show(slerp=roma.unitquat_slerp(quat[0], quat[1], torch.linspace(0, 1, 4, dtype=torch.float64)))
source, turn = torch.randn(20, 3), roma.random_rotmat(1)[0]
show(turn=turn)
found, moved = roma.rigid_points_registration(source, source @ turn.T + 1)
show(found=found - turn, moved=moved)
pose = roma.Rigid(matrix.detach(), torch.randn(5, 3, dtype=torch.float64))
show(pose=(pose @ pose.inverse()).to_homogeneous())
points = torch.randn(6, 3, requires_grad=True)
show(mean=roma.special_procrustes(roma.random_rotmat(6).mean(0)))
