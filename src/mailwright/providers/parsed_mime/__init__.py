"""Split MIME into the fields that the APIs of some providers take."""
