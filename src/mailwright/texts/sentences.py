"""Make sentences of texts that are parts of sentences, for example of the messages of errors."""


def sentence(text: str) -> str:
    """Return the text with a capital letter at the start and a full stop at the end."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?', '…')) else '.'}" if text else ""
