"""Where synthetic requests come from: lengths, arrivals, sessions, tenants and users."""
