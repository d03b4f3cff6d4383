"""Formats: fabrics from and to the files of other tools; see `topo.format.registry`."""
