"""List numbers as decimal numbers, letters or Roman numerals."""

_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")),
    *((50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


def numeral(number: int, form: str) -> str:
    """Format a number for the list type of HTML (`1`, `a`, `i`). Like browsers, fall back to a decimal number."""
    if form == "a" and number > 0:
        return _letters(number)
    if form == "i" and 0 < number < 4000:
        return _roman(number)
    return str(number)


def _letters(number: int) -> str:
    found = ""
    while number > 0:
        number, place = divmod(number - 1, 26)
        found = chr(ord("a") + place) + found
    return found


def _roman(number: int) -> str:
    found = ""
    for value, sign in _ROMAN:
        times, number = divmod(number, value)
        found += sign * times
    return found
