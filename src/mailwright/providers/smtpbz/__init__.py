"""Send through smtp.bz."""
