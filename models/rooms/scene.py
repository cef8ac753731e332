"""The procedural rooms: what one world seed contains. Owns layout and colours; draws nothing. Any thread.

A world is 5 x 5 rooms of 4 x 4 free cells of one metre on a regular grid. A room has one of eight themes, a door
of one cell at a fixed place of a shared wall, framed pictures at one fixed place of a wall, and four spots that may
bear an object each. Each wall is painted and each quarter of the floor tiled by itself: little to know, yet what is
behind one cannot be told from ahead.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Poses = NDArray[np.float64]  # [F, 3]: x_m, z_m, yaw_rad

ROOMS_PER_SIDE = 5
ROOM_CELLS = 4
PITCH_CELLS = ROOM_CELLS + 1
SIDE_CELLS = ROOMS_PER_SIDE * PITCH_CELLS + 1
NUM_ROOMS = ROOMS_PER_SIDE**2
DOORWAY = NUM_ROOMS  # the row of every doorway in palette and tiles
NUM_PICTURES = 8
NUM_QUARTERS = 4  # of a room's floor: south-west, south-east, north-west, north-east

DOOR_OFFSET_CELLS = 1  # along a wall, from the room's first free cell
PICTURE_OFFSET_CELLS = 2
DOOR_SHARE = 0.75
PICTURE_SHARE = 0.6
OBJECT_SHARE = 0.5  # of spots

# of a room: wainscot, ceiling
THEMES = np.array(
    [
        [(0.42, 0.20, 0.17), (0.97, 0.93, 0.84)],
        [(0.34, 0.28, 0.45), (0.44, 0.40, 0.56)],
        [(0.26, 0.37, 0.31), (0.70, 0.84, 0.70)],
        [(0.12, 0.29, 0.36), (0.56, 0.78, 0.88)],
        [(0.17, 0.21, 0.45), (0.24, 0.30, 0.50)],
        [(0.32, 0.21, 0.42), (0.88, 0.80, 0.96)],
        [(0.48, 0.23, 0.32), (0.94, 0.72, 0.70)],
        [(0.50, 0.35, 0.23), (0.56, 0.42, 0.30)],
    ],
    dtype=np.float32,
)
# of a quarter of a floor: light, dark
TILES = np.array(
    [
        [(0.91, 0.82, 0.67), (0.60, 0.44, 0.33)],
        [(0.92, 0.92, 0.90), (0.26, 0.26, 0.30)],
        [(0.90, 0.56, 0.42), (0.58, 0.26, 0.20)],
        [(0.52, 0.78, 0.74), (0.14, 0.40, 0.42)],
        [(0.60, 0.72, 0.94), (0.20, 0.28, 0.56)],
        [(0.68, 0.82, 0.50), (0.28, 0.46, 0.26)],
        [(0.96, 0.82, 0.42), (0.66, 0.46, 0.16)],
        [(0.82, 0.64, 0.84), (0.44, 0.24, 0.46)],
    ],
    dtype=np.float32,
)
# of a wall above its wainscot
PAINTS = np.array(
    [
        (0.86, 0.40, 0.28),
        (0.96, 0.74, 0.30),
        (0.40, 0.66, 0.36),
        (0.14, 0.46, 0.50),
        (0.24, 0.36, 0.74),
        (0.44, 0.24, 0.58),
        (0.90, 0.50, 0.62),
        (0.94, 0.92, 0.86),
    ],
    dtype=np.float32,
)
DOORWAY_THEME = np.array([(0.40, 0.28, 0.19), (0.70, 0.60, 0.50)], np.float32)
DOORWAY_TILE = (0.50, 0.38, 0.28)
DOORWAY_PAINT = (0.58, 0.43, 0.30)

# radius_m, height_m (of a ball: its centre), kind (1 cylinder, 2 ball), red, green, blue
OBJECTS = np.array(
    [
        (0.17, 1.00, 1, 0.80, 0.66, 0.45),
        (0.24, 0.36, 1, 0.85, 0.24, 0.22),
        (0.24, 0.36, 1, 0.24, 0.42, 0.85),
        (0.24, 0.24, 2, 0.97, 0.78, 0.18),
        (0.24, 0.24, 2, 0.28, 0.70, 0.36),
        (0.15, 0.72, 1, 0.92, 0.92, 0.95),
    ],
    dtype=np.float32,
)
OBJECT_SPOTS_M = np.array([(0.8, 0.8), (3.2, 0.8), (0.8, 3.2), (3.2, 3.2)])  # [spots, 2] from a room's corner: x, z
NUM_SPOTS = len(OBJECT_SPOTS_M)


@dataclass(frozen=True, slots=True)
class Scene:
    """One world, as arrays that the renderer reads. Cells are [z, x]; nothing is changed after `make_scene`."""

    seed: int
    solid: Bytes  # [S, S]
    room: Bytes  # [S, S], the row of a cell in palette and tiles
    palette: Floats  # [rooms + 1, 2, 3], as THEMES has it
    tiles: Floats  # [rooms + 1, quarters, 2, 3], as TILES has it
    pictures: Bytes  # [S, S, 4], 1 + design on the faces west, east, south, north of a wall cell
    paint: Floats  # [S, S, 4, 3], red, green and blue of those faces, above the wainscot
    objects: Floats  # [rooms * spots, 8]: x, z, radius, height, kind (0 none), red, green, blue


def make_scene(seed: int) -> Scene:
    """Return the world of a seed; the same seed gives the same arrays."""
    rng = np.random.default_rng(seed)
    solid = np.ones((SIDE_CELLS, SIDE_CELLS), np.uint8)
    room = np.full((SIDE_CELLS, SIDE_CELLS), DOORWAY, np.uint8)
    for index in range(NUM_ROOMS):
        z, x = _first_cell(index)
        solid[z : z + ROOM_CELLS, x : x + ROOM_CELLS] = 0
        room[z : z + ROOM_CELLS, x : x + ROOM_CELLS] = index
    themes = THEMES[rng.integers(len(THEMES), size=NUM_ROOMS)]
    palette = np.concatenate([themes, DOORWAY_THEME[None]]).astype(np.float32)
    _open_doors(solid, rng)
    pictures, objects = _hang_pictures(rng), _place_objects(rng)
    paint, tiles = _paint_walls(rng), _tile_floors(rng)
    return Scene(seed, solid, room, palette, tiles, pictures, paint, objects)


def _first_cell(room_index: int) -> tuple[int, int]:
    row, column = divmod(room_index, ROOMS_PER_SIDE)
    return row * PITCH_CELLS + 1, column * PITCH_CELLS + 1


def _open_doors(solid: Bytes, rng: np.random.Generator) -> None:
    open_east, open_north = rng.random((2, NUM_ROOMS)) < DOOR_SHARE
    for index in range(NUM_ROOMS):
        z, x = _first_cell(index)
        if open_east[index] and x + PITCH_CELLS < SIDE_CELLS:
            solid[z + DOOR_OFFSET_CELLS, x + ROOM_CELLS] = 0
        if open_north[index] and z + PITCH_CELLS < SIDE_CELLS:
            solid[z + ROOM_CELLS, x + DOOR_OFFSET_CELLS] = 0


def _hang_pictures(rng: np.random.Generator) -> Bytes:
    pictures = np.zeros((SIDE_CELLS, SIDE_CELLS, 4), np.uint8)
    hung = rng.random((NUM_ROOMS, 4)) < PICTURE_SHARE
    design = rng.integers(1, 1 + NUM_PICTURES, size=(NUM_ROOMS, 4))
    for index in range(NUM_ROOMS):
        z, x = _first_cell(index)
        along = PICTURE_OFFSET_CELLS
        # the east wall of a room shows its west face, and so on
        faces = ((z + along, x + ROOM_CELLS), (z + along, x - 1), (z + ROOM_CELLS, x + along), (z - 1, x + along))
        for face, (cell_z, cell_x) in enumerate(faces):
            pictures[cell_z, cell_x, face] = design[index, face] * hung[index, face]
    return pictures


def _paint_walls(rng: np.random.Generator) -> Floats:
    paint = np.empty((SIDE_CELLS, SIDE_CELLS, 4, 3), np.float32)
    paint[:] = DOORWAY_PAINT
    colour = PAINTS[rng.integers(len(PAINTS), size=(NUM_ROOMS, 4))]
    for index in range(NUM_ROOMS):
        z, x = _first_cell(index)
        rows, columns = slice(z, z + ROOM_CELLS), slice(x, x + ROOM_CELLS)
        # the east wall of a room shows its west face, and so on
        paint[rows, x + ROOM_CELLS, 0] = colour[index, 0]
        paint[rows, x - 1, 1] = colour[index, 1]
        paint[z + ROOM_CELLS, columns, 2] = colour[index, 2]
        paint[z - 1, columns, 3] = colour[index, 3]
    return paint


def _tile_floors(rng: np.random.Generator) -> Floats:
    tiles = np.empty((NUM_ROOMS + 1, NUM_QUARTERS, *TILES.shape[1:]), np.float32)
    tiles[:NUM_ROOMS] = TILES[rng.integers(len(TILES), size=(NUM_ROOMS, NUM_QUARTERS))]
    tiles[DOORWAY] = DOORWAY_TILE
    return tiles


def _place_objects(rng: np.random.Generator) -> Floats:
    objects = np.zeros((NUM_ROOMS, NUM_SPOTS, 8), np.float32)
    present = rng.random((NUM_ROOMS, NUM_SPOTS)) < OBJECT_SHARE
    kind = rng.integers(len(OBJECTS), size=(NUM_ROOMS, NUM_SPOTS))
    for index in range(NUM_ROOMS):
        z, x = _first_cell(index)
        objects[index, :, :2] = np.array([x, z]) + OBJECT_SPOTS_M
        objects[index, :, 2:] = OBJECTS[kind[index]]
    objects[~present] = 0.0
    return objects.reshape(-1, 8)
