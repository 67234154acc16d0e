"""List the content of pasted or existing HTML that a conversion to blocks does not keep."""

from selectolax.lexbor import LexborHTMLParser

from mailwright.content.blocks.document import is_allowed_url


def dropped_notes(html: str) -> list[str]:
    """Return a sentence for each kind of content that the blocks lack or show in another form."""
    tree = LexborHTMLParser(html)
    sources = [(node.attributes.get("src") or "").strip() for node in tree.css("img")]
    lost = sum(not source or not is_allowed_url(source) for source in sources)
    # A table with headings becomes a block of HTML, and one with a single column loses nothing.
    tables = [table for table in tree.css("table") if len(table.css("table")) == 1 and not table.css("th")]
    loose = sum(any(len(row.css("td")) > 1 for row in table.css("tr")) for table in tables)
    notes: list[str] = []
    if lost:
        what = "1 image was" if lost == 1 else f"{lost} images were"
        notes.append(f"{what} left out, because only your computer has it. Upload it here.")
    if loose:
        notes.append("A table became text." if loose == 1 else f"{loose} tables became text.")
    return notes
