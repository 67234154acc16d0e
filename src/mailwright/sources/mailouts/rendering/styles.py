"""Inline styles that email clients support, and colours for light and dark mode."""

from collections.abc import Mapping

from mailwright.domain.lazy_dataclass import dataclass

INK, INK_DARK = "#24292f", "#e6e6e3"
PAPER, PAPER_DARK = "#ffffff", "#191919"
# Secondary text: captions, hosts of links, completed items.
MUTED, MUTED_DARK = "#62666d", "#a9abb0"
LINE, LINE_DARK = "#d9dce1", "#454950"
SHADE, SHADE_DARK = "#f3f4f6", "#2a2c30"
LINK, LINK_DARK = "#0b5cad", "#7db7f5"

FONT = "-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
MONOSPACE = "ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace"


@dataclass(frozen=True, slots=True)
class Colour:
    """A colour with the same hue as in Notion, but dark enough to read on white. `paper` is the background colour."""

    ink: str
    ink_dark: str
    paper: str
    paper_dark: str


COLOURS: Mapping[str, Colour] = {
    "gray": Colour("#62666d", "#a9abb0", "#eef0f2", "#2f3134"),
    "brown": Colour("#85553d", "#d3a78f", "#f4ece8", "#3b2a22"),
    "orange": Colour("#a84f00", "#f0a567", "#fcecdc", "#472b12"),
    "yellow": Colour("#806000", "#e2bb55", "#fbf3d5", "#40340f"),
    "green": Colour("#2a6b4a", "#7fc8a0", "#e6f3ea", "#1d3a2a"),
    "blue": Colour("#0b5cad", "#7db7f5", "#e4f0fb", "#17324d"),
    "purple": Colour("#71479a", "#c6a6e6", "#f1eaf8", "#35254a"),
    "pink": Colour("#a22f6c", "#ea9ec6", "#fbe8f1", "#4a2036"),
    "red": Colour("#b3261e", "#f5958e", "#fde8e6", "#4c201d"),
}

# Rules for email clients with media queries; the inline styles are those of light mode.
NARROW = """
.mw-column{display:block!important;width:100%!important;padding-left:0!important;padding-right:0!important}
.mw-page{padding:20px 16px!important}
"""


def dark_rules() -> str:
    """Return the dark-mode rules for every class with a colour."""
    rules = [
        f".mw-body,.mw-page{{background-color:{PAPER_DARK}!important;color:{INK_DARK}!important}}",
        f".mw-muted{{color:{MUTED_DARK}!important}}",
        f".mw-line,hr{{border-color:{LINE_DARK}!important}}",
        f".mw-shade{{background-color:{SHADE_DARK}!important;color:{INK_DARK}!important}}",
        f".mw-link{{color:{LINK_DARK}!important}}",
        f".mw-paper-default{{background-color:{SHADE_DARK}!important;color:{INK_DARK}!important}}",
    ]
    for name, colour in COLOURS.items():
        rules.append(f".mw-ink-{name}{{color:{colour.ink_dark}!important}}")
        rules.append(f".mw-paper-{name}{{background-color:{colour.paper_dark}!important;color:{INK_DARK}!important}}")
    return "\n".join(rules)


def coloured(name: object) -> tuple[str, str] | None:
    """Return the class and style of a Notion colour, or None for the default and unknown names."""
    match str(name).removesuffix("_background"), str(name).endswith("_background"):
        case "default", True:
            return "mw-paper-default", f"background-color:{SHADE};color:{INK}"
        case known, True if known in COLOURS:
            return f"mw-paper-{known}", f"background-color:{COLOURS[known].paper};color:{INK}"
        case known, False if known in COLOURS:
            return f"mw-ink-{known}", f"color:{COLOURS[known].ink}"
        case _:
            return None


def attributes(style: str, colour: object = None, also: str = "") -> str:
    """Return the `class` and `style` attributes of an element."""
    found = coloured(colour)
    classes = " ".join(name for name in (also, found[0] if found else "") if name)
    styles = ";".join(part for part in (style, found[1] if found else "") if part)
    if found and "background" in found[1] and "padding" not in style:
        styles = f"{styles};padding:4px 8px;border-radius:4px"
    return (f' class="{classes}"' if classes else "") + (f' style="{styles}"' if styles else "")
