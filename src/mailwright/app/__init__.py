"""Create the services of an installation and connect them. Only this package imports from every layer below it."""
