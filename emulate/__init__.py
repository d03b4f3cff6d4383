"""What moves the bytes: the packet engine (C++), the max-min fluid, and what both share."""
