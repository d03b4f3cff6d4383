"""What moves the bytes: the packet engine (C++), the fluid (max-min), and the settings they share."""
