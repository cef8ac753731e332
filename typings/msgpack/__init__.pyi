# The part of msgpack 1.x that this project uses; the package ships no types.
from typing import Any

class UnpackException(Exception): ...  # noqa: N818 - msgpack's own name

def packb(o: Any, *, use_bin_type: bool = ...) -> bytes: ...
def unpackb(
    packed: bytes,
    *,
    use_list: bool = ...,
    max_array_len: int = ...,
    max_map_len: int = ...,
    max_str_len: int = ...,
    max_bin_len: int = ...,
    max_ext_len: int = ...,
) -> Any: ...
