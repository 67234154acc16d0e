"""What a mail says: templates, HTML, plain text, MIME and signatures. Pure functions of what they are given."""
