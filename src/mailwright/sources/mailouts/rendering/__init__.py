"""Render Notion blocks as an email: the same blocks give the same bytes, and every omission is reported."""

from mailwright.sources.mailouts.rendering.block_renderer import ContentIssue
from mailwright.sources.mailouts.rendering.document import framed
from mailwright.sources.mailouts.rendering.images import ImageCopier
from mailwright.sources.mailouts.rendering.render import RenderedPage, render
from mailwright.sources.mailouts.rendering.rich_text import ImageCopy

__all__ = ["ContentIssue", "ImageCopier", "ImageCopy", "RenderedPage", "framed", "render"]
