"""How surfaces look, as tensor operations: the colours of shading.py for whole pictures at once. Training only.

F frames, R rays across, V lines down; colours are 0 to 1. Designs, lights and constants are those of shading.py.
"""

from dataclasses import dataclass

import torch

from models.rooms.rays_torch import Hits, Scenes, View
from models.rooms.scene import DOORWAY, NUM_SPOTS, PITCH_CELLS, ROOM_CELLS
from models.rooms.shading import FACE_LIGHT, PICTURE_COLOURS
from models.rooms.sizes import CAMERA_HEIGHT_M, FAR_M

_NEAR_OBJECTS = 44  # a frame looks at so many of a world's objects: the nearest; those beyond are past all depth


def room_colours(view: View, scenes: Scenes, scene_of: torch.Tensor, hits: Hits) -> tuple[torch.Tensor, torch.Tensor]:
    """Return colours [F, R, V, 3] and depths [F, R, V] of walls, floors and ceilings, without objects."""
    wall = hits.depth[..., None]  # [F, R, 1]
    level = CAMERA_HEIGHT_M / view.slope.abs()  # [V]
    is_level = level < wall
    # rows of the palette, and rooms, under the points of floor and ceiling; elsewhere the camera's own place
    reach = torch.where(is_level, level, 0.0)
    px = view.poses[:, 0, None, None] + reach * view.dx[..., None]
    pz = view.poses[:, 1, None, None] + reach * view.dz[..., None]
    scene = scene_of[:, None, None]
    room = scenes.room[scene, pz.floor().long(), px.floor().long()]
    level_colour = torch.where(
        (view.slope > 0.0)[:, None],
        _floor(scenes, scene, room, px, pz),
        _ceiling(scenes, scene, room, px, pz),
    )
    wall_colour = _walls(view, scenes, scene_of, hits)
    return torch.where(is_level[..., None], level_colour, wall_colour), torch.minimum(wall, level.expand_as(is_level))


def with_objects(
    view: View, objects: torch.Tensor, wall: torch.Tensor, colour: torch.Tensor, depth: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return colours and depths with the objects [F, n, 8] that stand before `wall` [F, R] drawn over them."""
    away = (objects[..., :2] - view.poses[:, None, :2]).norm(dim=-1)
    away = torch.where(objects[..., 4] > 0, away, torch.inf)
    _, order = away.topk(min(_NEAR_OBJECTS, away.shape[1]), largest=False)
    near = objects.gather(1, order.sort(dim=1).values[..., None].expand(-1, -1, objects.shape[-1]))
    colour, depth = colour.clone(), depth.clone()
    for index in range(near.shape[1]):
        for kind, draw in ((1, _cylinder), (2, _ball)):
            things = near[:, index]  # [F, 8]
            frame, ray = (_is_before(view, things, wall) & (things[:, 4, None] == kind)).nonzero(as_tuple=True)
            meeting = _Meeting.of(view, things, frame, ray)
            painted, hit = draw(meeting, depth[frame, ray])
            shown = hit < depth[frame, ray]
            colour[frame, ray] = torch.where(shown[..., None], painted, colour[frame, ray])
            depth[frame, ray] = torch.where(shown, hit, depth[frame, ray])
    return colour, depth


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Rays whose vertical planes meet a thing; n of them, V lines down each."""

    dx: torch.Tensor  # [n, 1]
    dz: torch.Tensor  # [n, 1]
    slope: torch.Tensor  # [V]
    ox: torch.Tensor  # [n, 1], the camera seen from the thing
    oz: torch.Tensor  # [n, 1]
    radius: torch.Tensor  # [n, 1]
    height: torch.Tensor  # [n, 1], of a ball: its centre
    colour: torch.Tensor  # [n, 1, 3]

    @classmethod
    def of(cls, view: View, things: torch.Tensor, frame: torch.Tensor, ray: torch.Tensor) -> "_Meeting":
        thing, camera = things[frame], view.poses[frame]
        return cls(
            dx=view.dx[frame, ray, None],
            dz=view.dz[frame, ray, None],
            slope=view.slope,
            ox=camera[:, 0, None] - thing[:, 0, None],
            oz=camera[:, 1, None] - thing[:, 1, None],
            radius=thing[:, 2, None],
            height=thing[:, 3, None],
            colour=thing[:, None, 5:8],
        )


def near_light(distance: torch.Tensor, reach: float) -> torch.Tensor:
    """Return a smooth 1 at distance 0 that is 0 from `reach` on: soft shadow."""
    return (1.0 - distance / reach).clamp(min=0.0) ** 2


def _walls(view: View, scenes: Scenes, scene_of: torch.Tensor, hits: Hits) -> torch.Tensor:
    hit_x = view.poses[:, 0, None] + hits.depth * view.dx
    hit_z = view.poses[:, 1, None] + hits.depth * view.dz
    lies_east = hits.face < 2  # or west: along z
    place = torch.where(lies_east, hit_z, hit_x)
    along = ((place - 1.0) % PITCH_CELLS)[..., None]
    u = (place - place.floor())[..., None]
    scene = scene_of[:, None]
    room = scenes.room[scene, *hits.open]  # [F, R]
    design = scenes.pictures[scene, *hits.cell, hits.face][..., None]
    height = CAMERA_HEIGHT_M - view.slope * hits.depth[..., None]  # [F, R, V]
    corner = 0.22 * near_light(torch.minimum(along, ROOM_CELLS - along), 0.8) * (room != DOORWAY)[..., None]
    light = (1.0 - corner) * (1.0 - 0.25 * near_light(height, 0.25)) * (1.0 - 0.15 * near_light(1.0 - height, 0.3))
    light = light * _constant(FACE_LIGHT, light)[hits.face][..., None]
    paint, wainscot = scenes.paint[scene, *hits.cell, hits.face], scenes.palette[scene, room, 0]  # [F, R, 3]
    plain = torch.where((height < 0.22)[..., None], wainscot[..., None, :], paint[..., None, :])
    pu, pv = (u - 0.5) / 0.36, (height - 0.59) / 0.27
    pictured = (design > 0) & (pu.abs() < 1.0) & (pv.abs() < 1.0)
    kind = (design - 1).clamp(min=0)
    framed = (pu.abs() > 0.82) | (pv.abs() > 0.78)
    part = torch.where(_is_shape(kind, pu, pv), 0, 1)
    picture = _constant(PICTURE_COLOURS, light)[kind.expand_as(part), part]
    frame = 0.20 - 0.04 * torch.arange(3, device=light.device)
    picture = torch.where(framed[..., None], frame, picture)
    return torch.where(pictured[..., None], picture, plain) * light[..., None]


def _is_shape(kind: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return where a picture of design `kind` shows its shape, at picture coordinates in -1..1."""
    u = u.expand_as(v)
    round_m = u * u + v * v
    shapes = (
        round_m < 0.30,
        v < 0.45 - (u + 0.15).abs() * 1.1,
        u > 0.0,
        (u.abs() < 0.25) | (v.abs() < 0.25),
        u > v,
        v < 0.0,
        (round_m > 0.12) & (round_m < 0.50),
        u.abs() + v.abs() < 0.70,
    )
    found = torch.zeros_like(v, dtype=torch.bool)
    for design, shape in enumerate(shapes):
        found |= (kind == design) & shape
    return found


def _floor(scenes: Scenes, scene: torch.Tensor, room: torch.Tensor, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    light = torch.where(room == DOORWAY, 0.82, 1.0 - 0.30 * near_light(_edge(x, z), 0.7))
    for spot in range(NUM_SPOTS):
        thing = scenes.objects[scene, room.clamp(max=DOORWAY - 1) * NUM_SPOTS + spot]  # [F, R, V, 8]
        gap = torch.hypot(x - thing[..., 0], z - thing[..., 1]) - 0.7 * thing[..., 2]
        is_shaded = (thing[..., 4] > 0) & (room != DOORWAY)
        light = light * (1.0 - 0.5 * near_light(gap.clamp(min=0.0), 0.35) * is_shaded)
    lx, lz = _in_room(x, z)
    quarter = (lx >= ROOM_CELLS / 2).long() + 2 * (lz >= ROOM_CELLS / 2).long()
    shade = (x.floor() + z.floor()).long() & 1
    return scenes.tiles[scene, room, quarter, shade] * light[..., None]


def _ceiling(scenes: Scenes, scene: torch.Tensor, room: torch.Tensor, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    is_room = room != DOORWAY
    lx, lz = _in_room(x, z)
    off = torch.hypot(lx % 2.0 - 1.0, lz % 2.0 - 1.0)
    glow = torch.where(off < 0.27, 1.0, 0.6 * near_light(off - 0.27, 0.45)) * is_room
    light = torch.where(is_room, 0.92 - 0.22 * near_light(_edge(x, z), 0.7), 0.75)
    lamp = torch.tensor((1.0, 1.0, 0.88), device=x.device)
    plain = scenes.palette[scene, room, 1] * (light * (1.0 - glow))[..., None]
    return plain + lamp * glow[..., None]


def _in_room(x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where points lie in their room, from its first corner."""
    return (x - 1.0) % PITCH_CELLS, (z - 1.0) % PITCH_CELLS


def _edge(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Return how far points are from the nearest wall of their room."""
    lx, lz = _in_room(x, z)
    return torch.minimum(torch.minimum(lx, ROOM_CELLS - lx), torch.minimum(lz, ROOM_CELLS - lz))


def _is_before(view: View, things: torch.Tensor, wall: torch.Tensor) -> torch.Tensor:
    """Return for each ray [F, R] whether its vertical plane meets the frame's thing [F, 8] before the wall."""
    ox, oz = things[:, 0, None] - view.poses[:, 0, None], things[:, 1, None] - view.poses[:, 1, None]
    length = torch.hypot(view.dx, view.dz)
    ahead, aside = (ox * view.dx + oz * view.dz) / length, (ox * view.dz - oz * view.dx) / length
    radius = things[:, 2, None]
    return (ahead > 0.0) & (aside.abs() < radius) & (ahead - radius < wall.clamp(max=FAR_M) * length)


def _cylinder(met: _Meeting, depth: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return colours [n, V, 3] and depths [n, V] (infinite where it is not seen) of a standing cylinder."""
    a, b = met.dx**2 + met.dz**2, met.ox * met.dx + met.oz * met.dz
    inside = b * b - a * (met.ox**2 + met.oz**2 - met.radius**2)
    root = inside.clamp(min=0.0).sqrt()
    near, far = (-b - root) / a, (-b + root) / a
    height, tall = CAMERA_HEIGHT_M - met.slope * near, met.height  # [n, V], [n, 1]
    on_side = (inside > 0.0) & (near > 0.02) & (height >= 0.0) & (height <= tall) & (near < depth)
    light = 0.72 + 0.28 * ((met.ox + near * met.dx) * 0.8 - (met.oz + near * met.dz) * 0.6) / met.radius
    is_dark = (tall > 0.9) & (((height * 4.0).floor().long() & 1) == 1)
    light = light * torch.where(is_dark, 0.72, 1.0)
    top = torch.where(met.slope > 0.0, (CAMERA_HEIGHT_M - tall) / met.slope, 0.0)
    on_top = (inside > 0.0) & ~on_side & (near < top) & (top < far) & (top < depth)
    colour = torch.where(on_top[..., None], (met.colour * 1.12).clamp(max=1.0), met.colour * light[..., None])
    return colour, torch.where(on_side, near, torch.where(on_top, top, torch.inf))


def _ball(met: _Meeting, depth: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return colours [n, V, 3] and depths [n, V] (infinite where it is not seen) of a ball."""
    oy = CAMERA_HEIGHT_M - met.height
    a = met.dx**2 + met.dz**2 + met.slope**2
    b = met.ox * met.dx + met.oz * met.dz - oy * met.slope
    inside = b * b - a * (met.ox**2 + met.oz**2 + oy**2 - met.radius**2)
    near = (-b - inside.clamp(min=0.0).sqrt()) / a
    shown = (inside > 0.0) & (near > 0.02) & (near < depth)
    up, side = (oy - near * met.slope) / met.radius, (met.ox + near * met.dx) / met.radius
    colour = met.colour * (0.70 + 0.28 * up + 0.12 * side)[..., None]
    return colour, torch.where(shown, near, torch.inf)


def _constant(values: object, like: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(values, device=like.device, dtype=like.dtype)
