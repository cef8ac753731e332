"""How surfaces look: light, soft shadow, pictures, tiles, lamps, objects. Owns colours at a point; traces no wall.

Compiled by numba into the renderer's loop; every function writes `colour` (3 floats, 0 to 1) in place. Any thread.
"""

import math

import numpy as np
from numpy.typing import NDArray

from models.rooms.compiled import njit
from models.rooms.scene import DOORWAY, NUM_SPOTS, PITCH_CELLS, ROOM_CELLS, Floats
from models.rooms.sizes import CAMERA_HEIGHT_M

Rows = NDArray[np.int64]

FACE_LIGHT = np.array([1.0, 0.88, 0.80, 0.94], np.float32)
PICTURE_COLOURS = np.array(
    [  # shape, ground
        [(0.98, 0.80, 0.22), (0.16, 0.30, 0.52)],
        [(0.24, 0.46, 0.34), (0.66, 0.85, 0.96)],
        [(0.95, 0.35, 0.28), (0.96, 0.93, 0.84)],
        [(0.97, 0.95, 0.90), (0.72, 0.16, 0.22)],
        [(0.95, 0.62, 0.16), (0.20, 0.16, 0.36)],
        [(0.16, 0.40, 0.62), (0.98, 0.72, 0.50)],
        [(0.30, 0.78, 0.80), (0.14, 0.16, 0.28)],
        [(0.55, 0.25, 0.60), (0.95, 0.88, 0.60)],
    ],
    np.float32,
)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def near_light(distance: float, reach: float) -> float:
    """Return a smooth 1 at distance 0 that is 0 from `reach` on: soft shadow."""
    share = max(0.0, 1.0 - distance / reach)
    return share * share


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def picture_part(design: int, u: float, v: float) -> int:
    """Return 0 frame, 1 shape, 2 ground at picture coordinates in -1..1."""
    if abs(u) > 0.82 or abs(v) > 0.78:
        return 0
    shape = False
    if design == 0:
        shape = u * u + v * v < 0.30
    elif design == 1:
        shape = v < 0.45 - abs(u + 0.15) * 1.1
    elif design == 2:
        shape = u > 0.0
    elif design == 3:
        shape = abs(u) < 0.25 or abs(v) < 0.25
    elif design == 4:
        shape = u > v
    elif design == 5:
        shape = v < 0.0
    elif design == 6:
        shape = 0.12 < u * u + v * v < 0.50
    else:
        shape = abs(u) + abs(v) < 0.70
    return 1 if shape else 2


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def wall_light(height: float, along: float, room: int) -> float:
    """How bright a wall is at a height, and along the wall from the corner of the room."""
    corner = 0.0 if room == DOORWAY else 0.22 * near_light(min(along, ROOM_CELLS - along), 0.8)
    return (1.0 - corner) * (1.0 - 0.25 * near_light(height, 0.25)) * (1.0 - 0.15 * near_light(1.0 - height, 0.3))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def wall_colour(
    palette: Floats,
    room: int,
    plain: Floats,
    design: int,
    height: float,
    u: float,
    along: float,
    face: int,
    colour: Floats,
) -> None:
    """Colour a wall in its `plain` paint, its wainscot or its picture; `u` runs along one cell."""
    light = FACE_LIGHT[face] * wall_light(height, along, room)
    pu, pv = (u - 0.5) / 0.36, (height - 0.59) / 0.27
    pictured = design > 0 and abs(pu) < 1.0 and abs(pv) < 1.0
    part = picture_part(design - 1, pu, pv) if pictured else 0
    for c in range(3):
        value = palette[room, 0, c] if height < 0.22 else plain[c]
        if pictured:
            value = PICTURE_COLOURS[design - 1, part - 1, c] if part > 0 else 0.20 - 0.04 * c
        colour[c] = value * light


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def floor_colour(tiles: Floats, objects: Floats, room: int, x: float, z: float, colour: Floats) -> None:
    """Colour the tiles, darker at the walls and below the room's objects."""
    light, quarter = 0.82, 0
    if room != DOORWAY:
        lx, lz = (x - 1.0) % PITCH_CELLS, (z - 1.0) % PITCH_CELLS
        quarter = int(lx >= ROOM_CELLS / 2) + 2 * int(lz >= ROOM_CELLS / 2)
        edge = min(lx, ROOM_CELLS - lx, lz, ROOM_CELLS - lz)
        light = 1.0 - 0.30 * near_light(edge, 0.7)
        for index in range(room * NUM_SPOTS, (room + 1) * NUM_SPOTS):
            if objects[index, 4] > 0:
                gap = math.hypot(x - objects[index, 0], z - objects[index, 1]) - 0.7 * objects[index, 2]
                light *= 1.0 - 0.5 * near_light(max(gap, 0.0), 0.35)
    shade = (math.floor(x) + math.floor(z)) & 1
    for c in range(3):
        colour[c] = tiles[room, quarter, shade, c] * light


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def ceiling_colour(palette: Floats, room: int, x: float, z: float, colour: Floats) -> None:
    """Colour the ceiling and its four lamps."""
    glow, light = 0.0, 0.75
    if room != DOORWAY:
        lx, lz = (x - 1.0) % PITCH_CELLS, (z - 1.0) % PITCH_CELLS
        edge = min(lx, ROOM_CELLS - lx, lz, ROOM_CELLS - lz)
        light = 0.92 - 0.22 * near_light(edge, 0.7)
        off = math.hypot(lx % 2.0 - 1.0, lz % 2.0 - 1.0)
        glow = 1.0 if off < 0.27 else 0.6 * near_light(off - 0.27, 0.45)
    for c in range(3):
        lamp = 1.0 if c < 2 else 0.88
        colour[c] = palette[room, 1, c] * light * (1.0 - glow) + lamp * glow


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def objects_on_ray(objects: Floats, x: float, z: float, dx: float, dz: float, wall: float, near: Rows) -> int:
    """Write to `near` the rows of the objects that the vertical plane of a ray meets before the wall; count them."""
    count, length = 0, math.sqrt(dx * dx + dz * dz)
    for index in range(len(objects)):
        if objects[index, 4] == 0:
            continue
        ox, oz, radius = objects[index, 0] - x, objects[index, 1] - z, objects[index, 2]
        ahead, aside = (ox * dx + oz * dz) / length, (ox * dz - oz * dx) / length
        if ahead > 0.0 and abs(aside) < radius and ahead - radius < wall * length:
            near[count] = index
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def object_colour(
    objects: Floats, index: int, x: float, z: float, dx: float, dz: float, slope: float, depth: float, colour: Floats
) -> float:
    """Draw one object in front of `depth` when the ray meets it; return the new depth."""
    ox, oz = x - objects[index, 0], z - objects[index, 1]
    if objects[index, 4] == 1:
        return cylinder(objects, index, ox, oz, dx, dz, slope, depth, colour)
    return ball(objects, index, ox, oz, dx, dz, slope, depth, colour)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def cylinder(
    objects: Floats, index: int, ox: float, oz: float, dx: float, dz: float, slope: float, depth: float, colour: Floats
) -> float:
    """Draw a cylinder; (ox, oz) is the camera seen from its axis, `slope` the downward part of the ray."""
    radius, tall = objects[index, 2], objects[index, 3]
    a, b = dx * dx + dz * dz, ox * dx + oz * dz
    root = b * b - a * (ox * ox + oz * oz - radius * radius)
    if root <= 0.0:
        return depth
    near, far = (-b - math.sqrt(root)) / a, (-b + math.sqrt(root)) / a
    height = CAMERA_HEIGHT_M - slope * near
    if near > 0.02 and 0.0 <= height <= tall and near < depth:
        light = 0.72 + 0.28 * ((ox + near * dx) * 0.8 - (oz + near * dz) * 0.6) / radius
        if tall > 0.9 and math.floor(height * 4.0) & 1:
            light *= 0.72
        for c in range(3):
            colour[c] = objects[index, 5 + c] * light
        return near
    top = (CAMERA_HEIGHT_M - tall) / slope if slope > 0.0 else 0.0
    if near < top < far and top < depth:
        for c in range(3):
            colour[c] = min(1.0, objects[index, 5 + c] * 1.12)
        return top
    return depth


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def ball(
    objects: Floats, index: int, ox: float, oz: float, dx: float, dz: float, slope: float, depth: float, colour: Floats
) -> float:
    """Draw a ball; (ox, oz) is the camera seen from its centre, `slope` the downward part of the ray."""
    radius, oy = objects[index, 2], CAMERA_HEIGHT_M - objects[index, 3]
    a, b = dx * dx + dz * dz + slope * slope, ox * dx + oz * dz - oy * slope
    root = b * b - a * (ox * ox + oz * oz + oy * oy - radius * radius)
    if root <= 0.0:
        return depth
    near = (-b - math.sqrt(root)) / a
    if near <= 0.02 or near >= depth:
        return depth
    up, side = (oy - near * slope) / radius, (ox + near * dx) / radius
    for c in range(3):
        colour[c] = objects[index, 5 + c] * (0.70 + 0.28 * up + 0.12 * side)
    return near
