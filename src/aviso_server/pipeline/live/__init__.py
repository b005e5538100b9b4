"""Live views: rates and late cycles, computed continuously and published as notifications."""
