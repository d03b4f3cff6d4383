"""Recorded request traces: readers for public formats, and their replay."""
