"""Where a view lies on the grid that all rooms are built on: what the layout network is told of each patch's rays.

Rooms of 4x4 m stand on a grid of 5 m, tiles of 1 m on it alternate, lamps hang in the same four places. Told where a
ray would meet floor, ceiling and the planes that walls may stand in, a network draws straight tiles and walls that end
where rooms do; whether there is a wall, a door, a picture or a thing, and in what colours, is for memory and chance to
say. No scene: nothing here differs between two worlds. Pure tensors, float32; any thread.

N patches of a frame, NUM_FACTS numbers for each. Fine places lie FINE a side in a patch; V lines and U columns of them.
"""

import math

import torch

from models.rooms.geometry import RIGHT, UP
from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS, FAR_M, FOCAL_PX, HEIGHT_PX, PATCH_PX, ROWS, TOKENS, WIDTH_PX

FINE = 4
_PITCH_M = 5.0  # of rooms
_ROOM_STARTS_M, _ROOM_ENDS_M = 1.0, 0.0  # modulo the pitch: the walls that one sees ahead, going down and up an axis
_TILE_PAIR_M = 2.0
_LAMPS_APART_M = 2.0
_LAMP_M = 0.6  # from the middle of a lamp to where its light ends
_PLANES = 2  # of walls, along each axis: those of the room one is in, and of the next
_WAVES = 5  # of the pitch, down to one tile
_TILE_WAVES = 10  # of what pitch and tile pair have in common, down to one tile
_TURN_WAVES = 4
_LEAST_SPEED = 1e-4  # of a ray along an axis: below, it never meets the planes across
_NEAREST_M = 0.05  # a plane that one stands on counts as this far
_TALLEST_M = 1.5  # heights are cut here: what lies beyond is hidden by floor or ceiling

NUM_FINE = 5  # facts of a fine place
NUM_FACTS = 4 * _TILE_WAVES + 4 + 2 * _PLANES * (2 + 2 * _WAVES) + 4 * _WAVES + 2 * _TURN_WAVES + 4 * FINE**2 + FINE


def grid_facts(poses: torch.Tensor) -> torch.Tensor:
    """Return the facts [..., N, NUM_FACTS] of frames at planar poses [..., 3] (x_m, z_m, yaw_rad)."""
    mark, beyond, side, *next_room = fine_facts(poses).unbind(-3)
    columns = side[..., :ROWS, :].unflatten(-1, (COLUMNS, FINE)).flatten(-3, -2)  # the same in every line
    of_room = [_of_patches(poses.float()), _by_patch(mark), _by_patch(beyond), columns]
    return torch.cat([*of_room, *(_by_patch(fact) for fact in next_room)], dim=-1)


def _of_patches(poses: torch.Tensor) -> torch.Tensor:
    """Return where the ray through a patch's middle meets floor or ceiling, wall planes, and the grid as a whole."""
    right, up = RIGHT.to(poses.device), UP.to(poses.device)
    x, z, east, north = _rays(poses, right)  # [..., 1], [..., N]
    level_m = CAMERA_HEIGHT_M / up.abs()
    level_x, level_z = x + level_m * east, z + level_m * north
    common_m = _PITCH_M * _TILE_PAIR_M
    facts = [_waves(level_x, common_m, _TILE_WAVES), _waves(level_z, common_m, _TILE_WAVES)]
    a, b = _waves(level_x, _TILE_PAIR_M, 1), _waves(level_z, _TILE_PAIR_M, 1)
    facts.append((a[..., :, None] * b[..., None, :]).flatten(-2))
    for at, speed, other_at, other_speed in ((x, east, z, north), (z, north, x, east)):
        first_m, apart_m = _next_plane(at, speed)
        for number in range(_PLANES):
            depth_m = (first_m + number * apart_m).clamp(max=FAR_M)
            height_m = (up * depth_m).clamp(-_TALLEST_M, _TALLEST_M)
            along = _waves(other_at + depth_m * other_speed, _PITCH_M, _WAVES)
            facts += [depth_m.log()[..., None], height_m[..., None], along]
    facts += [_waves(part, _PITCH_M, _WAVES).expand(*east.shape, -1) for part in (x, z)]
    facts.append(_waves(torch.atan2(east, north), 2 * math.pi, _TURN_WAVES))
    return torch.cat(facts, dim=-1)


def fine_facts(poses: torch.Tensor) -> torch.Tensor:
    """Return the facts [..., NUM_FINE, V, U] of the fine places of frames at planar poses [..., 3].

    They are: the tile or the lamp that is there, if no wall is nearer; how far beyond the first wall plane floor or
    ceiling would be; which of the planes across both axes comes first; and the first two again of the room behind a
    door, up to the second plane.
    """
    poses = poses.float()
    step_px = PATCH_PX / FINE
    right = ((torch.arange(COLUMNS * FINE, device=poses.device) + 0.5) * step_px - WIDTH_PX / 2) / FOCAL_PX
    up = (HEIGHT_PX / 2 - (torch.arange(ROWS * FINE, device=poses.device) + 0.5) * step_px) / FOCAL_PX
    x, z, east, north = _rays(poses, right)  # [..., 1], [..., U]
    (across_x, apart_x), (across_z, apart_z) = _next_plane(x, east), _next_plane(z, north)
    first_m, later_m = torch.minimum(across_x, across_z), torch.maximum(across_x, across_z)
    second_m = torch.minimum(later_m, first_m + torch.where(across_x < across_z, apart_x, apart_z))
    level_m = CAMERA_HEIGHT_M / up.abs()[:, None]  # [V, 1]
    level_x, level_z = (at[..., None] + level_m * speed[..., None, :] for at, speed in ((x, east), (z, north)))
    tile = (level_x * (2 * math.pi / _TILE_PAIR_M)).sin() * (level_z * (2 * math.pi / _TILE_PAIR_M)).sin()
    lamp = 1.0 - torch.hypot(_from_lamp(level_x), _from_lamp(level_z)) / _LAMP_M
    mark = torch.where(up[:, None] < 0, tile, lamp.clamp(min=-1.0))
    beyond, beyond_next = ((level_m / plane_m[..., None, :]).log().clamp(-1.0, 1.0) for plane_m in (first_m, second_m))
    here, behind = torch.where(beyond < 0, mark, 0.0), torch.where((beyond >= 0) & (beyond_next < 0), mark, 0.0)
    side = (across_x / across_z).log().clamp(-1.0, 1.0)[..., None, :].expand_as(mark)
    return torch.stack([here, beyond, side, behind, beyond_next], dim=-3)


def _from_lamp(at: torch.Tensor) -> torch.Tensor:
    """Return how far along one axis the middle of the nearest lamp of a room lies."""
    return torch.remainder(torch.remainder(at - _ROOM_STARTS_M, _PITCH_M), _LAMPS_APART_M) - _LAMPS_APART_M / 2


def _rays(poses: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return x, z [..., 1] of cameras, and how far east and north [..., R] rays go for each metre ahead."""
    x, z, yaw = (poses[..., axis, None] for axis in range(3))
    return x, z, yaw.sin() + right * yaw.cos(), yaw.cos() - right * yaw.sin()


def _next_plane(at: torch.Tensor, speed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how far ahead a ray meets the next wall plane across an axis, and how far apart such planes are."""
    to_next = torch.where(
        speed > 0,
        _PITCH_M - torch.remainder(at - _ROOM_ENDS_M, _PITCH_M),
        torch.remainder(at - _ROOM_STARTS_M, _PITCH_M),
    )
    speed = speed.abs().clamp(min=_LEAST_SPEED)
    return (to_next / speed).clamp(min=_NEAREST_M), _PITCH_M / speed


def _waves(value: torch.Tensor, length: float, count: int) -> torch.Tensor:
    """Return sine and cosine [..., 2 * count] of a value at a wave length and its first fractions."""
    phase = value[..., None] * (2.0 * math.pi / length * torch.arange(1, count + 1, device=value.device))
    return torch.cat([phase.sin(), phase.cos()], dim=-1)


def _by_patch(fine: torch.Tensor) -> torch.Tensor:
    """[..., V, U] -> [..., N, FINE * FINE]."""
    cells = fine.unflatten(-1, (COLUMNS, FINE)).unflatten(-3, (ROWS, FINE))
    return cells.transpose(-3, -2).reshape(*fine.shape[:-2], TOKENS, FINE * FINE)
