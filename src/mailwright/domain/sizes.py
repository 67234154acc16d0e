"""Format file sizes for display."""

from mailwright.domain.translation import number_text


def size_text(size_bytes: int) -> str:
    """Return `812 bytes`, `34 KB`, `4.2 MB` or `1.3 GB`."""
    if size_bytes < 1024:
        return f"{size_bytes} byte{'' if size_bytes == 1 else 's'}"
    if size_bytes < 1024**2:
        return f"{round(size_bytes / 1024)} KB"
    unit, divisor = ("MB", 1024**2) if size_bytes < 1024**3 else ("GB", 1024**3)
    decimals = 0 if round(size_bytes / divisor, 1).is_integer() else 1
    return f"{number_text(size_bytes / divisor, decimals)} {unit}"
