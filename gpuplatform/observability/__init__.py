"""How the platform is doing: health, steady-state report, samples and metrics collectors."""
