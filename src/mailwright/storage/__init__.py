"""Engines, tables, the one dialect switch, migrations. Nothing above this folder knows which database it is on."""
