"""Draws a scene: a ray caster for walls, floor, ceiling, pictures and objects, with z-depth. Training and tests only.

Owns light and fog; the scene owns colours. Compiled by numba, releases the interpreter lock; any thread.
"""

import math

import numpy as np
from numpy.typing import NDArray

from models.rooms import shading
from models.rooms.compiled import njit
from models.rooms.scene import PITCH_CELLS, Bytes, Floats, Poses, Scene
from models.rooms.sizes import CAMERA_HEIGHT_M, FAR_M, FOCAL_PX, HEIGHT_PX, WIDTH_PX

Hit = tuple[float, int, int, int, int, int]  # depth, wall cell x and z, open cell x and z, face

_SUPERSAMPLE = 2
_FOG = (0.09, 0.10, 0.17)


def render(scene: Scene, poses: NDArray[np.floating]) -> tuple[Bytes, Floats]:
    """Draw poses [F, 3] (x_m, z_m, yaw_rad); return RGB [F, H, W, 3] and z-depth in metres [F, H, W]."""
    poses = np.ascontiguousarray(poses, np.float64)
    rgb = np.empty((len(poses), HEIGHT_PX, WIDTH_PX, 3), np.uint8)
    depth_m = np.empty((len(poses), HEIGHT_PX, WIDTH_PX), np.float32)
    looks = (scene.palette, scene.tiles, scene.pictures, scene.paint, scene.objects)
    _draw(scene.solid, scene.room, *looks, poses, rgb, depth_m)
    return rgb, depth_m


def wall_depths(scene: Scene, poses: NDArray[np.floating], columns: int) -> Floats:
    """Return the z-depth of the walls alone [F, columns], evenly over the field of view."""
    poses = np.ascontiguousarray(poses, np.float64)
    depth_m = np.empty((len(poses), columns), np.float32)
    _draw_wall_depths(scene.solid, poses, depth_m)
    return depth_m


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _ray(yaw: float, across: float) -> tuple[float, float]:
    """Return (dx, dz) of the ray whose forward part is 1 and whose rightward part is `across`."""
    sin, cos = math.sin(yaw), math.cos(yaw)
    return sin + across * cos, cos - across * sin


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _trace(solid: Bytes, x: float, z: float, dx: float, dz: float) -> Hit:
    """Walk the grid to the first wall: (depth, cell x, cell z, open cell x, open cell z, face)."""
    cell_x, cell_z = math.floor(x), math.floor(z)
    step_x, step_z = (1 if dx > 0 else -1), (1 if dz > 0 else -1)
    gap_x, gap_z = abs(1.0 / dx) if dx != 0 else 1e9, abs(1.0 / dz) if dz != 0 else 1e9
    next_x = (cell_x + 1 - x if dx > 0 else x - cell_x) * gap_x
    next_z = (cell_z + 1 - z if dz > 0 else z - cell_z) * gap_z
    while True:
        open_x, open_z = cell_x, cell_z
        if next_x < next_z:
            depth, face = next_x, (0 if dx > 0 else 1)
            next_x += gap_x
            cell_x += step_x
        else:
            depth, face = next_z, (2 if dz > 0 else 3)
            next_z += gap_z
            cell_z += step_z
        if solid[cell_z, cell_x]:
            return max(depth, 1e-3), cell_x, cell_z, open_x, open_z, face


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _draw_wall_depths(solid: Bytes, poses: Poses, depth_m: Floats) -> None:
    columns = depth_m.shape[1]
    for frame in range(len(poses)):
        x, z, yaw = poses[frame]
        for column in range(columns):
            dx, dz = _ray(yaw, (column + 0.5) * 2.0 / columns - 1.0)
            depth_m[frame, column] = min(_trace(solid, x, z, dx, dz)[0], FAR_M)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _draw(
    solid: Bytes,
    room: Bytes,
    palette: Floats,
    tiles: Floats,
    pictures: Bytes,
    paint: Floats,
    objects: Floats,
    poses: Poses,
    rgb: Bytes,
    depth_m: Floats,
) -> None:
    total = np.zeros((HEIGHT_PX, 4), np.float32)  # red, green, blue, inverse depth of one pixel column
    samples = _SUPERSAMPLE * _SUPERSAMPLE
    for frame in range(len(poses)):
        x, z, yaw = poses[frame]
        for u in range(WIDTH_PX):
            total[:] = 0.0
            for sub in range(_SUPERSAMPLE):
                across = (u + (sub + 0.5) / _SUPERSAMPLE) / FOCAL_PX - 1.0
                _draw_ray(solid, room, palette, tiles, pictures, paint, objects, x, z, yaw, across, total)
            for v in range(HEIGHT_PX):
                for c in range(3):
                    rgb[frame, v, u, c] = np.uint8(total[v, c] / samples * 255.0 + 0.5)
                depth_m[frame, v, u] = samples / total[v, 3]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _draw_ray(
    solid: Bytes,
    room: Bytes,
    palette: Floats,
    tiles: Floats,
    pictures: Bytes,
    paint: Floats,
    objects: Floats,
    x: float,
    z: float,
    yaw: float,
    across: float,
    total: Floats,
) -> None:
    """Add one vertical line of samples to `total`."""
    dx, dz = _ray(yaw, across)
    wall, cell_x, cell_z, open_x, open_z, face = _trace(solid, x, z, dx, dz)
    hit_x, hit_z = x + wall * dx, z + wall * dz
    u = hit_z - math.floor(hit_z) if face < 2 else hit_x - math.floor(hit_x)
    along = (hit_z - 1.0) % PITCH_CELLS if face < 2 else (hit_x - 1.0) % PITCH_CELLS
    row = room[open_z, open_x]
    design = pictures[cell_z, cell_x, face]
    plain = paint[cell_z, cell_x, face]
    length = math.sqrt(1.0 + across * across)
    near = np.empty(len(objects), np.int64)
    num_near = shading.objects_on_ray(objects, x, z, dx, dz, wall, near)
    colour = np.empty(3, np.float32)
    for line in range(HEIGHT_PX * _SUPERSAMPLE):
        slope = ((line + 0.5) / _SUPERSAMPLE - HEIGHT_PX / 2.0) / FOCAL_PX
        level = CAMERA_HEIGHT_M / abs(slope)
        depth = min(wall, level)
        if level < wall:
            px, pz = x + level * dx, z + level * dz
            under = room[math.floor(pz), math.floor(px)]
            if slope > 0.0:
                shading.floor_colour(tiles, objects, under, px, pz, colour)
            else:
                shading.ceiling_colour(palette, under, px, pz, colour)
        else:
            height = CAMERA_HEIGHT_M - slope * wall
            shading.wall_colour(palette, row, plain, design, height, u, along, face, colour)
        for index in range(num_near):
            depth = shading.object_colour(objects, near[index], x, z, dx, dz, slope, depth, colour)
        _add(total, line // _SUPERSAMPLE, depth, length, slope, colour)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _add(total: Floats, v: int, depth: float, length: float, slope: float, colour: Floats) -> None:
    far = min(1.0, depth * math.sqrt(length * length + slope * slope) / FAR_M)
    clear = (1.0 - far * far) * (1.0 - far * far)
    for c in range(3):
        total[v, c] += min(1.0, colour[c]) * clear + _FOG[c] * (1.0 - clear)
    total[v, 3] += 1.0 / min(depth, FAR_M)
