"""From blocks of Notion to a mail: the same blocks give the same bytes, and nothing is left out without a word."""

from mailwright.sources.mailouts.rendering.block_walk import Unsupported
from mailwright.sources.mailouts.rendering.frame import framed
from mailwright.sources.mailouts.rendering.pictures import Pictures
from mailwright.sources.mailouts.rendering.render import Rendered, render
from mailwright.sources.mailouts.rendering.rich_text import Picture

__all__ = ["Picture", "Pictures", "Rendered", "Unsupported", "framed", "render"]
