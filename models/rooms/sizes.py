"""The fixed sizes of the embedded world: picture, patches, camera, chunk. Owns numbers only; any thread."""

WIDTH_PX = 96
HEIGHT_PX = 64
PATCH_PX = 8
COLUMNS = WIDTH_PX // PATCH_PX
ROWS = HEIGHT_PX // PATCH_PX
TOKENS = ROWS * COLUMNS  # N, patches of one frame

FOCAL_PX = WIDTH_PX / 2.0  # horizontal field of view of 90 degrees
CAMERA_HEIGHT_M = 0.5
FAR_M = 8.0  # fog is total from here on, and depth ends here

CHUNK_FRAMES = 2  # C, frames of one model step
WINDOW_CHUNKS = 2  # chunks that stay in the attention window
MAX_RECALL = 6  # blocks a chunk is drawn with at most

STEP_M = 0.11  # farthest the player moves in one frame
TURN_RAD = 0.2  # farthest the training walks turn in one frame

FIRST_HELD_OUT_SEED = 800_000  # worlds from this seed on are never trained on
